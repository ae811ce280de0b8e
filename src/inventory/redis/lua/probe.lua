-- probe: whether the partition answers, under which epoch, and whether it can be written to.
-- KEYS    those of partition.lua; 6 a key of its own, which is written
-- ARGV    1 epoch of the floor   2 floor
-- RETURNS {epoch (0: not answering), ms, last grant}
call('SET', KEYS[6], now)
return { answering, now, last_grant }
