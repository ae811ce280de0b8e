-- Whether a queue shard could be opened here (W1): which epoch it knows. Writes a mark of its own, so that a store which only
-- reads, or is full, is found out before the numbering is handed to it.
-- KEYS[1] {tag}:meta      hash: epoch, last, ceiling, looked
-- Returns {1, epoch}; '0': none.
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'looked', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)))
return {1, redis.call('HGET', KEYS[1], 'epoch') or '0'}
