-- choose: which seats a claim takes; stands behind partition.lua in front of hold.lua.
-- RULES A set bit refuses at once unless some lease has lapsed; then the seat's own deadline decides (S4). The seats of `own`,
--       the visitor's hold, count as free.
local first_due = call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
local some_lapsed = first_due ~= nil and tonumber(first_due) <= now

local function is_free(seat)
  if seat > last_seat then return false end
  if call('GETBIT', BITS, seat) == 0 then return true end
  if not some_lapsed then return false end
  local lease = call('HGET', STATE, 's' .. seat)
  return lease ~= false and tonumber(string.match(lease, '^%d+')) <= now
end
local function own_seats(own)
  local mine = {}
  if own then for _, seat in ipairs(own[SEATS]) do mine[seat] = true end end
  return mine
end

-- The seats, or nil and those that are not free.
local function choose_named(seats, own)
  local mine, taken = own_seats(own), {}
  for _, seat in ipairs(seats) do
    if not mine[seat] and not is_free(seat) then taken[#taken + 1] = seat end
  end
  return #taken == 0 and seats or nil, taken
end

local function choose_group(seats, quantity, own)
  local mine = own_seats(own)
  for from = 1, #seats, quantity do
    local group = {}
    for i = from, from + quantity - 1 do
      if not mine[seats[i]] and not is_free(seats[i]) then break end
      group[#group + 1] = seats[i]
    end
    if #group == quantity then return group end
  end
  return nil, {}
end
