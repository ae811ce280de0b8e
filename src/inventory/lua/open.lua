-- open: from now on the partition answers.
-- KEYS    those of partition.lua
-- ARGV    1 epoch, 2 phase, 3 its version, 4 last grant of the former store
-- RETURNS {stale, epoch} or {done}
-- RULES   Only the epoch that was begun. Repeatable. Grant numbers go on above the former store's.
if epoch == 0 or epoch ~= tonumber(ARGV[1]) then return { CODE.stale, epoch } end
if not (tonumber(ARGV[2]) and tonumber(ARGV[3]) and tonumber(ARGV[4])) then
  return redis.error_reply('ERR open: malformed')
end
decide_phase(tonumber(ARGV[2]), tonumber(ARGV[3]))
call('HSET', META, 'ready', 1, 'grant', math.max(last_grant, tonumber(ARGV[4])))
return { CODE.done }
