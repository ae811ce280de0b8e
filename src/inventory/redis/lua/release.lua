-- release: gives seats back, each hold only by its own id and visitor; leaves a tombstone for an id that is not there yet.
-- KEYS    those of partition.lua
-- ARGV    1 epoch   2 floor; then for each: hold, visitor, order that was just closed or ''
-- RETURNS {stale, epoch} or {done, last grant, answer…}: {released, seats}, {bound, order}, {hold_gone}
-- RULES   S5. A hold bound to an order refuses unless that order is named.
local FIELDS = 3
if answering == 0 or answering ~= asked then return { CODE.stale, answering } end
if (#ARGV - 2) % FIELDS ~= 0 then return redis.error_reply('ERR release: malformed request') end

local function release(hold, visitor, force)
  local r = read(hold)
  if not r or is_forgotten(r) then
    if r then forget(hold, r) end
    write(hold, { HELD.tombstone, visitor, visitor, '', now, now, 0, '', {} }, now + LIFE_MAX_MS)
    give_number()
    return { CODE.hold_gone }
  end
  if r[VISITOR] ~= visitor or not counts(r) then return { CODE.hold_gone } end
  if r[ORDER] ~= '' and r[ORDER] ~= force then return { CODE.bound, r[ORDER] } end
  local seats = r[DEADLINE] > now and covered(hold, r) or {}
  finish(hold, r, r[ORDER] ~= '' and HELD.ended or HELD.released)
  give_number()
  return { CODE.released, seats }
end

local answers = { CODE.done, 0 }
for at = 3, #ARGV, FIELDS do answers[#answers + 1] = release(ARGV[at], ARGV[at + 1], ARGV[at + 2]) end
answers[2] = last_grant
return answers
