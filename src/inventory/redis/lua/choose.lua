-- choose: which seats a claim takes; follows partition.lua and precedes hold.lua.
-- RULES A set bit rejects at once unless some lease has expired; then the seat's own deadline decides (S4). The seats of `own`,
--       the visitor's hold, count as free.
--       The whole bitmap, a few kilobytes, is read once a call. A bit that was set then is still set, unless the call itself
--       has freed a seat since; a bit that was clear is checked again.
local bits = call('GETRANGE', BITS, 0, -1)
local first_due = call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
local some_lapsed = first_due ~= nil and tonumber(first_due) <= now

local function is_set(seat)
  local byte = string.byte(bits, math.floor(seat / 8) + 1)
  return not has_freed and bit.band(byte, bit.rshift(128, seat % 8)) ~= 0 or call('GETBIT', BITS, seat) == 1
end
local function is_free(seat)
  if seat > last_seat then return false end
  if not is_set(seat) then return true end
  if not some_lapsed then return false end
  local lease = call('HGET', STATE, 's' .. seat)
  return lease ~= false and tonumber(string.match(lease, '^%d+')) <= now
end
local NOTHING = {}
local function own_seats(own)
  if not own then return NOTHING end
  local mine = {}
  for _, seat in ipairs(own[SEATS]) do mine[seat] = true end
  return mine
end

-- The seats, or nil and those that are not free.
local function choose_named(text, own)
  local mine, seats, taken = own_seats(own), {}, {}
  for digits in string.gmatch(text, '%d+') do
    local seat = tonumber(digits)
    if mine[seat] or is_free(seat) then seats[#seats + 1] = seat else taken[#taken + 1] = seat end
  end
  return #taken == 0 and seats or nil, taken
end

-- The first group that is wholly free; what comes behind it is not even read.
local function choose_group(text, quantity, own)
  local mine, group, place, open = own_seats(own), {}, 0, true
  for digits in string.gmatch(text, '%d+') do
    local seat = tonumber(digits)
    place = place + 1
    open = open and (mine[seat] or is_free(seat))
    group[place] = seat
    if place == quantity then
      if open then return group end
      place, open = 0, true
    end
  end
  return nil, NOTHING
end
