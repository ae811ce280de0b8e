-- snapshot: every seat's state at one instant, in parts that the caller puts together: a seat is held when its code is 0,
-- its bit is set and it is not among the lapsed.
-- KEYS    those of partition.lua
-- ARGV    1 epoch of the floor   2 floor   3 lapsed holds looked at, at most
-- RETURNS {epoch (0: not answering), ms, codes, bits, lapsed seats, 1 when there are more lapsed holds}
-- RULES   S8
if answering == 0 then return { 0 } end
local most, lapsed = tonumber(ARGV[3]), {}
local holds = call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, most + 1)
for i = 1, math.min(#holds, most) do
  local r = read(holds[i])
  for _, seat in ipairs(r and r[DEADLINE] <= now and covered(holds[i], r) or {}) do lapsed[#lapsed + 1] = seat end
end
return { answering, now, call('GETRANGE', CODES, 0, -1), call('GETRANGE', BITS, 0, -1), lapsed, #holds > most and 1 or 0 }
