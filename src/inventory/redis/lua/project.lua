-- project: what Postgres decided about seats, holds and the phase. Idempotent, in any order; also while loading.
-- KEYS    those of partition.lua
-- ARGV    1 epoch of the floor   2 floor   3 phase or ''   4 its version or ''   5 changes (seat version code, side by side)
--         6 how many of the holds that follow have become an order; then those, then the ones whose order was sold or closed
-- RETURNS {done, last grant, epoch} or, where nothing is kept, {stale, 0}
-- RULES   S5 S7. An order's quota entry stays when its lease is over, and ends for good with the order.
if epoch == 0 then return { CODE.stale, 0 } end
local changes, ordered = numbers(ARGV[5]), tonumber(ARGV[6])
if not (changes and #changes % 3 == 0 and ordered) then return redis.error_reply('ERR project: malformed') end

local function order(hold, r)
  if r[KIND] == HELD.live then
    -- The lease goes on covering the seats until the decisions about them arrive; but the visitor may hold again.
    r[KIND] = HELD.ordered
    if call('HGET', STATE, 'v' .. r[VISITOR]) == hold then call('HDEL', STATE, 'v' .. r[VISITOR]) end
    call('HSET', STATE, 'h' .. hold, pack(r))
    has_decided = true
  elseif r[KIND] == HELD.expired then
    r[KIND] = HELD.ordered
    call('HSET', STATE, 'h' .. hold, pack(r))
    enlist(hold, r)
    call('ZREM', DUE, hold)
    has_decided = true
  end
end

decide_phase(tonumber(ARGV[3]), tonumber(ARGV[4]))
for i = 7, #ARGV do
  local r = read(ARGV[i])
  if i < 7 + ordered then
    if r then order(ARGV[i], r) end
  elseif r and (r[KIND] == HELD.live or r[KIND] == HELD.expired or r[KIND] == HELD.ordered) then
    finish(ARGV[i], r, HELD.ended)
    has_decided = true
  elseif not r and not ready then
    -- The hold may be among those of an older reading that remember.lua still has to add.
    write_ended(ARGV[i], { HELD.ended, '', '', '', now, now, 0, '', {} })
  end
end
for i = 1, #changes, 3 do decide(changes[i], changes[i + 1], changes[i + 2]) end
if has_decided then give_number() end
return { CODE.done, last_grant, epoch }
