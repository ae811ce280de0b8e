-- load: makes seats known, while loading and after; of a seat that is known the higher version counts.
-- KEYS    those of partition.lua
-- ARGV    1 epoch   2 floor   3 phase or ''   4 its version or ''   5 seats (seat version code, side by side)
-- RETURNS {stale, epoch} or {done}
-- RULES   Unless the epoch is this one, nothing changes.
if epoch == 0 or epoch ~= asked then return { CODE.stale, epoch } end
local list = numbers(ARGV[5])
if not list or #list % 3 ~= 0 then return redis.error_reply('ERR load: malformed seats') end

local highest = last_seat
for i = 1, #list, 3 do highest = math.max(highest, list[i]) end
if highest > last_seat then
  -- Seats in between belong to another partition until they are loaded; so do the bits of the last byte.
  local from, to = math.ceil((last_seat + 1) / 8), math.floor(highest / 8)
  if to >= from then call('SETRANGE', BITS, from, string.rep('\255', to - from + 1)) end
  call('APPEND', CODES, string.rep('x', highest - last_seat))
  call('HSET', META, 'last', highest)
  last_seat = highest
end

for i = 1, #list, 3 do
  local seat, version, code = list[i], list[i + 1], list[i + 2]
  if call('GETRANGE', CODES, seat, seat) == 'x' then
    call('SETRANGE', CODES, seat, code)
    if code == 0 then call('SETBIT', BITS, seat, 0) end
    if version ~= 1 then call('HSET', STATE, 'd' .. seat, version) end
  else
    decide(seat, version, code)
  end
end
decide_phase(tonumber(ARGV[3]), tonumber(ARGV[4]))
return { CODE.done }
