-- recover: returns the hold of a receipt unchanged. One that has become an order is gone; the order holds the rest. This store
-- does not take a forgotten hold again; only Postgres does, in the grace after a loss.
-- KEYS    those of partition.lua
-- ARGV    1 epoch   2 floor   3 hold   4 visitor
-- RETURNS {stale, epoch}, {recovered, hold…} or {hold_gone}
-- RULES   S5
if answering == 0 or answering ~= asked then return { CODE.stale, answering } end
local r = read(ARGV[3])
if not r or is_forgotten(r) or r[VISITOR] ~= ARGV[4] or r[KIND] == HELD.ordered
  or not stands(ARGV[3], r) then return { CODE.hold_gone } end
return hold_answer(CODE.recovered, ARGV[3], r)
