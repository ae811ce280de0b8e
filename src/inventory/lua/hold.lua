-- hold: claims to sets of seats, each all or nothing (S2), within the holder's quota (S7), idempotent by hold id; one after
-- the other, so that each finds what those before it took.
-- KEYS    those of partition.lua
-- ARGV    1 epoch; then for each claim: hold, visitor, holder, request, kind (index of claimKinds), quantity, seats (ascending
--         and side by side: the groups one after the other; of units: first count start), ttl ms, seats max, replaced hold or
--         '', not after in ms or ''
-- RETURNS {stale, epoch} or {done, answer…}: {granted, granted at, deadline, grant, seats}, {repeated or hold_exists, hold…},
--         {taken, seats}, {quota, used}, {not_open, phase}, {mismatch}, {hold_gone}, {too_late}
-- RULES   S2 S3 S4 S6 S7. Refusals in this order: the id's own past, phase, time, seats, the visitor's other hold, quota.
local FIELDS = 11
if answering == 0 or answering ~= tonumber(ARGV[1]) then return { CODE.stale, answering } end
local lists = {}
for at = 2, #ARGV, FIELDS do
  lists[at] = numbers(ARGV[at + 6])
  local known = tonumber(ARGV[at + 5]) and tonumber(ARGV[at + 7]) and tonumber(ARGV[at + 8])
  if not (lists[at] and known and ARGV[at + 10]) then return redis.error_reply('ERR hold: malformed claim') end
end

local function past_answer(at, hold, r)
  if r[VISITOR] ~= ARGV[at + 1] then return { CODE.mismatch } end
  if r[KIND] == HELD.tombstone then return { CODE.hold_gone } end
  if r[REQUEST] ~= ARGV[at + 3] then return { CODE.mismatch } end
  if stands(hold, r) then return hold_answer(CODE.repeated, hold, r) end
  return { CODE.hold_gone }
end

local function same(a, b)
  for i = 1, math.max(#a, #b) do if a[i] ~= b[i] then return false end end
  return true
end

local function claim(at)
  local hold, visitor, kind, quantity = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local holder = ARGV[at + 2]
  local found = call('HMGET', STATE, 'h' .. hold, 'v' .. visitor, 'q' .. holder)
  local past = found[1] and unpacked(found[1])
  if past and not is_forgotten(past) then return past_answer(at, hold, past) end
  if not MAY_HOLD[phase] then return { CODE.not_open, phase } end
  if ARGV[at + 10] ~= '' and now > tonumber(ARGV[at + 10]) then return { CODE.too_late } end
  local own_id, list, seats, taken = found[2], lists[at], nil, nil
  local own = own_id and read(own_id)
  if own and not (is_live(own) and stands(own_id, own)) then own = nil end
  if kind == KIND_OF.seats then seats, taken = choose_named(list, own)
  elseif kind == KIND_OF.groups then seats, taken = choose_group(list, quantity, own)
  else seats, taken = choose_units(list[1], list[2], quantity, list[3], own) end
  if not seats then return { CODE.taken, taken } end
  local replaces = ARGV[at + 9]
  if own and replaces == '' then
    local again = kind == KIND_OF.seats and same(own[SEATS], seats)
    return hold_answer(again and CODE.repeated or CODE.hold_exists, own_id, own)
  end
  if replaces ~= '' and (not own or replaces ~= own_id or own[ORDER] ~= '') then return { CODE.hold_gone } end
  local ids = found[3] or ''
  local used = used_of(ids)
  if own and own[HOLDER] == holder then used = used - #own[SEATS] end
  if used + quantity > tonumber(ARGV[at + 8]) then return { CODE.quota, used } end
  if past then
    forget(hold, past)
    ids = call('HGET', STATE, 'q' .. holder) or ''
  end
  return grant(at, seats, ids, own_id, own)
end

local before, answers = last_grant, { CODE.done }
for at = 2, #ARGV, FIELDS do answers[#answers + 1] = claim(at) end
if last_grant > before then call('HSET', META, 'grant', last_grant) end
write_due()
return answers
