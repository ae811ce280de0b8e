-- recover: answers the hold of a receipt as it is. What this store has forgotten it does not take again: that is for
-- Postgres, in the grace after a loss.
-- KEYS    those of partition.lua
-- ARGV    1 epoch, 2 hold, 3 visitor
-- RETURNS {stale, epoch}, {recovered, hold…} or {hold_gone}
-- RULES   S5
if answering == 0 or answering ~= tonumber(ARGV[1]) then return { CODE.stale, answering } end
local r = read(ARGV[2])
if not r or is_forgotten(r) or r[VISITOR] ~= ARGV[3] or not stands(ARGV[2], r) then return { CODE.hold_gone } end
return hold_answer(CODE.recovered, ARGV[2], r)
