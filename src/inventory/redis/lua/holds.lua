-- holds: the records of existing holds, page by page, for audits. Reads only.
-- KEYS    those of partition.lua
-- ARGV    1 epoch of the floor   2 floor   3 cursor of the last reply, 0 at first   4 approximate number of fields to read
-- RETURNS {epoch (0: not loaded), cursor (0: end), the server's run id, then for each: hold, state (index of heldStates),
-- visitor, holder,
--         request, granted at, deadline, grant, order or '', seats}
-- RULES   A record that exists during the whole scan is returned at least once; others may come and go between calls. A
--         cursor is valid for one server only: if the slot moved meanwhile, reading starts again.
if answering == 0 then return { 0, '0', '' } end
local page = call('HSCAN', STATE, ARGV[3], 'MATCH', 'h*', 'COUNT', ARGV[4])
local found = { answering, page[1], string.match(call('INFO', 'server'), 'run_id:(%x+)') }
for i = 1, #page[2], 2 do
  local r = unpacked(page[2][i + 1])
  local fields = {
    string.sub(page[2][i], 2), r[KIND], r[VISITOR], r[HOLDER], r[REQUEST], r[GRANTED], r[DEADLINE], r[GRANT], r[ORDER],
    table.concat(r[SEATS] or {}, ' '),
  }
  for _, field in ipairs(fields) do found[#found + 1] = tostring(field) end
end
return found
