-- begin: forgets all of the partition and begins to load it under a new epoch.
-- KEYS    those of partition.lua; 6 the probe's
-- ARGV    1 epoch   2 floor: 0
-- RETURNS {stale, epoch} or {done}
-- RULES   Only under a higher epoch; repeated under the same one only while nothing has been loaded, so that a repetition that
--         comes late destroys nothing.
if begun == asked and epoch == asked and not ready and last_seat < 0 and call('ZCARD', DUE) == 1 then return { CODE.done } end
if not asked or begun >= asked then return { CODE.stale, begun } end
call('UNLINK', META, BITS, CODES, STATE, DUE)
call('HSET', META, 'epoch', asked, 'ready', 0)
-- A value this long makes the hash a hash table at once (hash-max-listpack-value, 64 unless configured): see partition.lua.
call('HSET', STATE, '', string.rep('-', 1024))
-- Never due, and likewise long.
call('ZADD', DUE, '+inf', string.rep('-', 128))
-- All keys are there from here on, also of a partition without seats or holds: while a slot moves between the nodes of a
-- cluster, neither runs a call of which it lacks a key.
call('MSET', BITS, '', CODES, '', KEYS[6], now)
return { CODE.done }
