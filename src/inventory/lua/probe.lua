-- probe: whether the partition answers, under which epoch, and whether it can be written to.
-- KEYS    those of partition.lua; 6 a key of its own, which is written
-- RETURNS {epoch (0: not answering), ms}
call('SET', KEYS[6], now)
return { answering, now }
