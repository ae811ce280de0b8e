-- How far a queue shard has come under an epoch (W1, W6). Writes a mark of its own, so that a store which only reads
-- is found out.
-- KEYS[1] {tag}:meta      hash: epoch, last, ceiling, looked
-- KEYS[2] {tag}:arrivals  hash: second -> last number of that second
-- ARGV: epoch, floor (a number known to be issued under it), first second that is asked for
-- Returns {1, now in ms, last, ceiling, second, last number, second, last number …} in no order, or {0, epoch} as queue_draw.
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'last', 'ceiling')
if meta[1] ~= ARGV[1] then return {0, meta[1] or '0'} end
if tonumber(meta[2]) < tonumber(ARGV[2]) then return {0, '0'} end

local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('HSET', KEYS[1], 'looked', now)
local answer = {1, now, meta[2], meta[3]}
local since = tonumber(ARGV[3])
local arrivals = redis.call('HGETALL', KEYS[2])
for i = 1, #arrivals, 2 do
  if tonumber(arrivals[i]) >= since then
    answer[#answer + 1] = arrivals[i]
    answer[#answer + 1] = arrivals[i + 1]
  end
end
return answer
