-- units: any free ones of a general admission area, from the given start and around; follows choose.lua.
-- RULES Full bytes of the bitmap are skipped by one search. Expired leases (S4) are found through `due` while few have
--       expired; otherwise by reading the area's leases from the claim's own start on, until enough are found, and to its end
--       at most once a call. If a seat is leased again in this call, its lease shows that.
local FEW, WINDOW = 30, 250
local lapsed_of = {}

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

local before_now = string.format('%.0f;', now)
-- Deadlines have equally many digits, so that texts compare as they do; ':' comes before ';'.
local function has_lapsed(lease) return lease ~= false and lease < before_now end

-- Adds the seats of the area whose lease has lapsed, in no order.
local function read_due(first, to, lapsed)
  for _, hold in ipairs(call('ZRANGEBYSCORE', DUE, '-inf', now)) do
    local r = read(hold)
    for _, seat in ipairs(r and r[SEATS] or {}) do
      if seat >= first and seat < to and has_lapsed(call('HGET', STATE, 's' .. seat)) then
        lapsed[#lapsed + 1] = seat
      end
    end
  end
  return lapsed
end
-- The same of [from, to) alone, ascending.
local function read_leases(from, to, lapsed)
  local fields = {}
  for seat = from, to - 1 do fields[#fields + 1] = 's' .. seat end
  for i, lease in ipairs(#fields > 0 and call('HMGET', STATE, unpack(fields)) or {}) do
    if has_lapsed(lease) then lapsed[#lapsed + 1] = from + i - 1 end
  end
end

-- Expired seats of the area, including the first `most` from `start` on that count in addition to the plain ones of `places`.
local function lapsed_within(first, count, start, most, places)
  local key, lapsed, to = first .. ':' .. count, {}, math.min(first + count, last_seat + 1)
  if not some_lapsed or lapsed_of[key] then return lapsed_of[key] or lapsed end
  if call('ZCOUNT', DUE, '-inf', now) <= FEW then
    lapsed_of[key] = read_due(first, to, lapsed)
    return lapsed
  end
  for from = 0, count - 1, WINDOW do
    local till, plain = math.min(from + WINDOW, count), 0
    read_leases(first + start + from, math.min(first + start + till, to), lapsed)
    read_leases(math.max(first, first + start + from - count), math.min(first + start + till - count, to), lapsed)
    for _, place in ipairs(places) do if place < till then plain = plain + 1 end end
    if #lapsed + plain >= most then return lapsed end
  end
  lapsed_of[key] = lapsed
  return lapsed
end

local function choose_units(first, count, quantity, start, own)
  local found, places, seen, seats = {}, {}, {}, {}
  local function add(seat)
    local place = (seat - first - start) % count
    if seen[place] or seat < first or seat >= first + count then return end
    seen[place] = true
    places[#places + 1] = place
  end
  find_zeros(first + start, first + count, quantity, found)
  find_zeros(first, first + start, quantity, found)
  for _, seat in ipairs(found) do add(seat) end
  for _, seat in ipairs(lapsed_within(first, count, start, quantity, places)) do
    if is_free(seat) then add(seat) end
  end
  if own then for _, seat in ipairs(own[SEATS]) do add(seat) end end
  if #places < quantity then return nil, NOTHING end
  table.sort(places)
  for i = 1, quantity do seats[i] = first + (start + places[i]) % count end
  table.sort(seats)
  return seats
end
