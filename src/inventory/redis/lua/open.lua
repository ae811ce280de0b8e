-- open: from now on the partition answers.
-- KEYS    those of partition.lua
-- ARGV    1 epoch   2 floor   3 phase   4 its version   5 last grant of the former store
-- RETURNS {stale, epoch} or {done}
-- RULES   Only the epoch that was begun. Repeatable. Grant numbers go on above the former store's.
if epoch == 0 or epoch ~= asked then return { CODE.stale, epoch } end
if not (tonumber(ARGV[3]) and tonumber(ARGV[4]) and tonumber(ARGV[5])) then
  return redis.error_reply('ERR open: malformed')
end
decide_phase(tonumber(ARGV[3]), tonumber(ARGV[4]))
call('HSET', META, 'ready', 1, 'grant', math.max(last_grant, tonumber(ARGV[5])))
return { CODE.done }
