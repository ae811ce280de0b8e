-- sweep: tidies lapsed holds and forgotten memories, oldest first. Never needed for correctness.
-- KEYS    those of partition.lua
-- ARGV    1 epoch of the floor   2 floor   3 how many at most
-- RETURNS {how many, 1 when there may be more}
-- RULES   S4 holds without it. The lapsed lease of an order is tidied along, uncounted: the order itself stays.
local limit, swept = tonumber(ARGV[3]), 0
if answering == 0 or limit == nil then return { 0, 0 } end
local holds = call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, 2 * limit)
for _, hold in ipairs(holds) do
  if swept == limit then break end
  local r = read(hold)
  if r and r[KIND] == HELD.ordered then
    uncover(hold, r)
    call('ZREM', DUE, hold)
  elseif r then
    swept = swept + 1
    if r[KIND] == HELD.live then finish(hold, r, HELD.expired) else forget(hold, r) end
  end
end
return { swept, #holds == 2 * limit and 1 or 0 }
