-- hold: claims to sets of seats, each all or nothing (S2), within the quotas of holder (S7) and address range, idempotent by
-- hold id; one after the other, so that each finds what those before it took.
-- KEYS    those of partition.lua
-- ARGV    1 epoch   2 floor; then for each claim: hold, visitor, holder, request, replaced hold or '', address range or '', and
--         whole numbers side by side: kind (index of claimKinds), quantity, ttl ms, seats max, not after in ms, the address
--         range's seats max, then seats (ascending; groups one after the other) or, of units, first count start
-- RETURNS {stale, epoch} or {done, last grant, answer…}: {granted, granted at, deadline, grant, seats}, {repeated or hold_exists, hold…},
--         {taken, seats}, {quota or address_quota, used}, {not_open, phase}, {mismatch}, {hold_gone}, {too_late}
-- RULES   S2 S3 S4 S6 S7. Refusals in this order: the id's own past, phase, time, seats, the visitor's other hold, quota,
--         address quota.
local FIELDS = 7
if answering == 0 or answering ~= asked then return { CODE.stale, answering } end
local numbers_of = {}
for at = 3, #ARGV, FIELDS do
  local list = { string.match(ARGV[at + 6] or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ([%d ]+)$') }
  if #list ~= 7 then return redis.error_reply('ERR hold: malformed claim') end
  numbers_of[at] = list
end

local function past_answer(at, hold, r)
  if r[VISITOR] ~= ARGV[at + 1] then return { CODE.mismatch } end
  if r[KIND] == HELD.tombstone then return { CODE.hold_gone } end
  -- A hold that was recovered from its receipt does not have the original request.
  if r[REQUEST] ~= '' and r[REQUEST] ~= ARGV[at + 3] then return { CODE.mismatch } end
  if stands(hold, r) then return hold_answer(CODE.repeated, hold, r) end
  return { CODE.hold_gone }
end

local function same(a, b)
  for i = 1, math.max(#a, #b) do if a[i] ~= b[i] then return false end end
  return true
end

local function choose(kind, quantity, text, own)
  if kind == KIND_OF.seats then return choose_named(text, own) end
  if kind == KIND_OF.groups then return choose_group(text, quantity, own) end
  local area = numbers(text)
  return choose_units(area[1], area[2], quantity, area[3], own)
end

local function claim(at)
  local hold, visitor, holder, replaces, address = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 4], ARGV[at + 5]
  local list = numbers_of[at]
  local kind, quantity, seats_max = tonumber(list[1]), tonumber(list[2]), tonumber(list[4])
  local found = call('HMGET', STATE, 'h' .. hold, 'v' .. visitor)
  local past, own_id = found[1] and unpacked(found[1]), found[2]
  if past and not is_forgotten(past) then return past_answer(at, hold, past) end
  if not MAY_HOLD[phase] then return { CODE.not_open, phase } end
  if now > tonumber(list[5]) then return { CODE.too_late } end
  local own = own_id and read(own_id)
  if own and not (is_live(own) and stands(own_id, own)) then own = nil end
  local seats, taken = choose(kind, quantity, list[7], own)
  if not seats then return { CODE.taken, taken } end
  if own and replaces == '' then
    local again = kind == KIND_OF.seats and same(own[SEATS], seats)
    return hold_answer(again and CODE.repeated or CODE.hold_exists, own_id, own)
  end
  if replaces ~= '' and (not own or replaces ~= own_id or own[ORDER] ~= '') then return { CODE.hold_gone } end
  local lists = call('HMGET', STATE, 'q' .. holder, 'a' .. address)
  local used = used_of(lists[1] or '')
  if own and own[HOLDER] == holder then used = used - #own[SEATS] end
  if used + quantity > seats_max then return { CODE.quota, used } end
  if address ~= '' then
    local most = tonumber(list[6]) - quantity
    used = used_from(lists[2] or '', most, own and own_id)
    if used > most then return { CODE.address_quota, used } end
  end
  if past then
    forget(hold, past)
    lists = call('HMGET', STATE, 'q' .. holder, 'a' .. address)
  end
  return grant(at, seats, now + list[3], lists[1] or '', lists[2] or '', own_id, own)
end

local before, answers = last_grant, { CODE.done, 0 }
for at = 3, #ARGV, FIELDS do answers[#answers + 1] = claim(at) end
if last_grant > before then call('HSET', META, 'grant', last_grant) end
write_due()
answers[2] = last_grant
return answers
