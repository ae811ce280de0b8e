-- remember: holds and memories of the former store, while loading.
-- KEYS    those of partition.lua
-- ARGV    1 epoch   2 floor: 0; then for each: hold, visitor, holder, request, state (index of heldStates), granted at, deadline, grant,
--         order or '', address or '', seats
-- RETURNS {stale, epoch} or {done}
-- RULES   Once open, nothing is remembered any more. Repeatable: a later reading of a hold replaces the former. A live hold's
--         seats are taken by it, an order's for the rest of its lease, unless they are decided; of several the highest grant
--         has a seat, and is its visitor's. A hold that `project` said has ended, whether it was here or not, has ended.
local FIELDS = 11
if ready or epoch == 0 or epoch ~= asked then return { CODE.stale, answering } end
local records = {}
for at = 3, #ARGV, FIELDS do
  local seats, r = numbers(ARGV[at + 10] or '-'), { tonumber(ARGV[at + 4]) }
  for i = 1, 3 do r[i + 1] = ARGV[at + i] end
  for i = 5, 7 do r[i] = tonumber(ARGV[at + i]) end
  r[ORDER], r[SEATS], r[ADDRESS] = ARGV[at + 8], seats, ARGV[at + 9]
  if not seats or #r ~= ADDRESS then return redis.error_reply('ERR remember: malformed hold') end
  records[at] = r
end

local function is_weaker(id, r)
  local other = id and read(id)
  return not other or other[GRANT] < r[GRANT]
end
local function cover(hold, r)
  for _, seat in ipairs(r[SEATS]) do
    local mine = seat <= last_seat and call('GETRANGE', CODES, seat, seat) == '0'
    local lease = mine and call('HGET', STATE, 's' .. seat)
    if mine and (not lease or is_weaker(string.match(lease, ':(.*)$'), r)) then
      call('SETBIT', BITS, seat, 1)
      call('HSET', STATE, 's' .. seat, r[DEADLINE] .. ':' .. hold)
    end
  end
end

for at = 3, #ARGV, FIELDS do
  local hold, r = ARGV[at], records[at]
  local known = read(hold)
  if known and known[KIND] == HELD.ended and counts(r) then r[KIND] = HELD.ended end
  if known then forget(hold, known) end
  last_grant = math.max(last_grant, r[GRANT])
  local leased = r[KIND] == HELD.live or r[KIND] == HELD.ordered
  if r[KIND] == HELD.ended then write_ended(hold, r)
  else write(hold, r, leased and r[DEADLINE] or r[DEADLINE] + LIFE_MAX_MS) end
  if leased then
    if r[DEADLINE] > now then cover(hold, r) elseif r[KIND] == HELD.ordered then call('ZREM', DUE, hold) end
    enlist(hold, r)
    local visitor = 'v' .. r[VISITOR]
    if is_live(r) and is_weaker(call('HGET', STATE, visitor), r) then call('HSET', STATE, visitor, hold) end
  end
end
call('HSET', META, 'grant', last_grant)
return { CODE.done }
