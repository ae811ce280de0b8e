-- Opens a queue shard under a new epoch: it issues from `last` on, below `ceiling` (W1). Once an epoch: one that was open,
-- or a higher one, is left as it is, since numbers may have been issued under it.
-- KEYS[1] {tag}:meta      hash: epoch, last, ceiling
-- KEYS[2] {tag}:arrivals  hash: second -> last number of that second
-- ARGV: epoch, last, ceiling
-- Returns {1}, or {0, epoch}: nothing was changed.
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch and tonumber(epoch) >= tonumber(ARGV[1]) then return {0, epoch} end
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'last', ARGV[2], 'ceiling', ARGV[3])
redis.call('DEL', KEYS[2])
return {1}
