-- Draws numbers of one queue shard for a batch of visitors, in the order of the list (W1). A visitor who drew within the
-- memory's time gets the same number again; nothing else is stored about the visitor, and that only as a key that expires.
-- KEYS[1] {tag}:meta      hash: epoch, last, ceiling
-- KEYS[2] {tag}:arrivals  hash: second (Unix time) -> last number of that second; the last minutes only
-- KEYS[3…] {tag}:v:<visitor>, one for each of the batch (500 at most), repeats allowed: "number:issued at (ms)"
-- ARGV: epoch, ceiling as the caller read it with that epoch, floor (a number known to be issued under it), memory in ms,
--       seconds that arrivals are kept
-- Returns {1, now in ms, last before, last after, ceiling, answer…}: "number:issued at" each, '' where the ceiling was
-- reached: nothing at or above it is ever issued. {0, epoch}: another epoch, or fewer numbers than the floor: what was
-- issued has been forgotten (epoch '0'); nothing was drawn.
-- The first write may be refused for want of memory; after it none is, so that it is all or nothing.
local meta = redis.call('HMGET', KEYS[1], 'epoch', 'last', 'ceiling')
if meta[1] ~= ARGV[1] then return {0, meta[1] or '0'} end
local before = tonumber(meta[2])
if before < tonumber(ARGV[3]) then return {0, '0'} end

local time = redis.call('TIME')
local second = time[1]
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
-- Ceilings of one epoch only rise: of two callers' the higher is the newer.
local ceiling = math.max(tonumber(meta[3]), tonumber(ARGV[2]))
local answers = {1, now, meta[2], meta[2], string.format('%.0f', ceiling)}
local remembered = redis.call('MGET', unpack(KEYS, 3))
local drawn = {}
local last = before

for i, known in ipairs(remembered) do
  local key = KEYS[i + 2]
  local answer = known or drawn[key]
  if not answer then
    if last + 1 < ceiling then
      last = last + 1
      answer = string.format('%.0f:%s', last, now)
      drawn[key] = answer
    else
      answer = ''
    end
  end
  answers[i + 5] = answer
end
if last == before then return answers end

answers[4] = string.format('%.0f', last)
redis.call('HSET', KEYS[1], 'last', answers[4], 'ceiling', answers[5])
for key, answer in pairs(drawn) do
  redis.call('SET', key, answer, 'PX', ARGV[4])
end
local new = redis.call('HSET', KEYS[2], second, answers[4])
local kept = tonumber(ARGV[5])
-- Trimmed now and then, so that it never has more than twice the seconds that are kept.
if new == 1 and redis.call('HLEN', KEYS[2]) > 2 * kept then
  for _, old in ipairs(redis.call('HKEYS', KEYS[2])) do
    if tonumber(old) <= second - kept then redis.call('HDEL', KEYS[2], old) end
  end
end
return answers
