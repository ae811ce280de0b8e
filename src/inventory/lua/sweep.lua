-- sweep: tidies lapsed holds and forgotten memories, oldest first. Never needed for correctness.
-- KEYS    those of partition.lua
-- ARGV    1 how many at most
-- RETURNS how many
-- RULES   S4 holds without it. The lapsed lease of an order is tidied along, uncounted: the order itself stays.
local limit, swept = tonumber(ARGV[1]), 0
if answering == 0 or limit == nil then return 0 end
for _ = 1, 8 do
  local holds = call('ZRANGEBYSCORE', DUE, '-inf', now, 'LIMIT', 0, limit - swept)
  if #holds == 0 then break end
  for _, hold in ipairs(holds) do
    local r = read(hold)
    if not r then
      call('ZREM', DUE, hold)
    elseif r[KIND] == HELD.ordered then
      uncover(hold, r)
      call('ZREM', DUE, hold)
    else
      swept = swept + 1
      if r[KIND] == HELD.live then finish(hold, r, HELD.expired) else forget(hold, r) end
    end
  end
  if swept >= limit then break end
end
return swept
