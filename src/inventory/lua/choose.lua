-- choose: which seats a claim takes; stands behind partition.lua in front of hold.lua.
-- RULES A set bit refuses at once unless some lease has lapsed; then the seat's own deadline decides (S4). The seats of `own`,
--       the visitor's hold, count as free. Units: bytes that are full are skipped by one search; lapsed ones are found
--       through `due` or through the area, whichever is shorter, once a call.
local first_due = call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
local some_lapsed = first_due ~= nil and tonumber(first_due) <= now
local lapsed_of = {}

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

-- Plainly free seats of [from, to), ascending, until `found` has `most`.
local function find_zeros(from, to, most, found)
  to = math.min(to, last_seat + 1)
  if from >= to then return end
  local base, at = math.floor(from / 8), 1
  local bytes = call('GETRANGE', BITS, base, math.floor((to - 1) / 8))
  while #found < most do
    at = string.find(bytes, '[^\255]', at)
    if not at then return end
    local byte = string.byte(bytes, at)
    for place = 0, 7 do
      local seat = (base + at - 1) * 8 + place
      if seat >= from and seat < to and #found < most and bit.band(byte, bit.rshift(128, place)) == 0 then
        found[#found + 1] = seat
      end
    end
    at = at + 1
  end
end

local function lapsed_within(first, count)
  local key = first .. ':' .. count
  if not some_lapsed or lapsed_of[key] then return lapsed_of[key] or {} end
  local seats = {}
  if call('ZCOUNT', DUE, '-inf', now) > count then
    for seat = first, math.min(first + count - 1, last_seat) do seats[#seats + 1] = seat end
  else
    for _, hold in ipairs(call('ZRANGEBYSCORE', DUE, '-inf', now)) do
      local r = read(hold)
      for _, seat in ipairs(r and r[SEATS] or {}) do seats[#seats + 1] = seat end
    end
  end
  lapsed_of[key] = seats
  return seats
end

local function choose_units(first, count, quantity, start, own)
  local found, places, seen, seats = {}, {}, {}, {}
  local function add(seat)
    local place = (seat - first - start) % count
    if seat >= first and seat < first + count and not seen[place] then
      seen[place] = true
      places[#places + 1] = place
    end
  end
  find_zeros(first + start, first + count, quantity, found)
  find_zeros(first, first + start, quantity, found)
  for _, seat in ipairs(found) do add(seat) end
  for _, seat in ipairs(lapsed_within(first, count)) do if is_free(seat) then add(seat) end end
  if own then for _, seat in ipairs(own[SEATS]) do add(seat) end end
  if #places < quantity then return nil, {} end
  table.sort(places)
  for i = 1, quantity do seats[i] = first + (start + places[i]) % count end
  table.sort(seats)
  return seats
end
