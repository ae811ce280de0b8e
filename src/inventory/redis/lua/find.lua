-- find: the hold as it is now, for its owner's page.
-- KEYS    those of partition.lua
-- ARGV    1 epoch of the floor   2 floor   3 hold
-- RETURNS {epoch} (0: not answering; without a hold: it does not stand) or {epoch, {found, hold…}}
if answering == 0 then return { 0 } end
local r = read(ARGV[3])
if not r or is_forgotten(r) or not stands(ARGV[3], r) then return { answering } end
return { answering, hold_answer(CODE.found, ARGV[3], r) }
