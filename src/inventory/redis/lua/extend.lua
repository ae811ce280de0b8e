-- extend: binds holds to one order each and sets their deadlines once: at least 5 min left, at most 15 since the grant.
-- KEYS    those of partition.lua
-- ARGV    1 epoch   2 floor; then for each: hold, visitor, order
-- RETURNS {stale, epoch} or {done, last grant, answer…}: {extended, hold…}, {bound, order}, {hold_gone}
-- RULES   S5 S6. Repeatable with the same order: the deadline is not moved again. An ordered hold still answers (P1).
local FIELDS = 3
if answering == 0 or answering ~= asked then return { CODE.stale, answering } end
if (#ARGV - 2) % FIELDS ~= 0 then return redis.error_reply('ERR extend: malformed request') end

local function bind(hold, r, order)
  local seats = covered(hold, r)
  r[ORDER] = order
  r[DEADLINE] = math.max(r[DEADLINE], math.min(now + EXTEND_TO_MS, r[GRANTED] + LIFE_MAX_MS))
  for _, seat in ipairs(seats) do call('HSET', STATE, 's' .. seat, r[DEADLINE] .. ':' .. hold) end
  write(hold, r, r[DEADLINE])
  give_number()
end

local answers = { CODE.done, 0 }
for at = 3, #ARGV, FIELDS do
  local hold, order = ARGV[at], ARGV[at + 2]
  local r = read(hold)
  local answer = { CODE.hold_gone }
  if r and not is_forgotten(r) and r[VISITOR] == ARGV[at + 1] and stands(hold, r) then
    if r[ORDER] ~= '' and r[ORDER] ~= order then
      answer = { CODE.bound, r[ORDER] }
    else
      if r[ORDER] == '' then bind(hold, r, order) end
      answer = hold_answer(CODE.extended, hold, r)
    end
  end
  answers[#answers + 1] = answer
end
answers[2] = last_grant
return answers
