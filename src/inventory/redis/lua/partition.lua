-- partition: shared by all scripts of one partition; precedes each, after the tables of codes.ts.
-- KEYS  1 meta   hash: epoch, ready (0 while loading), phase, phase_version, grant (the last number given to a grant or to
--                any other change that a caller relies on), last (the highest seat number)
--       2 bits   bit n is 1 unless seat n is plainly free: decided, leased (also expired and unswept), or of another partition
--       3 codes  a character per seat: its decided state's index in seatStates, or x for a seat of another partition
--       4 state  hash: s<seat> lease 'deadline:hold', d<seat> version if not 1, h<hold> record, v<visitor> their live hold,
--                q<holder> the holds that may count in their quota, each followed by a comma,
--                a<address> the same for an address range, each as 'hold:seats,'
--       5 due    zset hold → ms: for a lease its deadline; for a remembered id when it is removed; no entry for an order
-- without
--                a lease and for a hold whose order has ended;
--                and a member of dashes that is never due, so that the key always exists
-- ARGV  1 epoch   2 floor: a number that the caller knows was given under that epoch, 0 for none; then the script's own
-- RULES A partition that has given fewer numbers than the floor is an older copy of itself (D1) and returns no data.
--       A lease expires by Redis's TIME alone (S3, S4). s<seat> exists only while the seat's decided state is available, and
--       names the last hold that took it with that hold's own deadline. While the earliest of `due` is in the future, no lease
--       has expired. A script reads its whole input before it writes, so that it never ends half-way.
--       `state` would be a listpack with linear search until it has 512 fields (hash-max-listpack-entries). begin.lua
--       puts a long field into it, which makes it a hash table from the start; likewise `due` is a skip list.
local META, BITS, CODES, STATE, DUE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local call, pack, unpacked = redis.call, cmsgpack.pack, cmsgpack.unpack
local KIND, VISITOR, HOLDER, REQUEST, GRANTED, DEADLINE, GRANT, ORDER, SEATS, ADDRESS =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local asked, floor = tonumber(ARGV[1]), tonumber(ARGV[2])
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local meta = call('HMGET', META, 'epoch', 'ready', 'phase', 'phase_version', 'grant', 'last')
local begun, ready = tonumber(meta[1] or 0), meta[2] == '1'
local phase, phase_version = tonumber(meta[3] or -1), tonumber(meta[4] or -1)
local last_grant, last_seat = tonumber(meta[5] or 0), tonumber(meta[6] or -1)
local is_older = begun == asked and last_grant < floor
-- Without one of its keys, evicted or deleted, a partition would grant what is taken: it is lost as a whole.
local epoch = not is_older and call('EXISTS', META, BITS, CODES, STATE, DUE) == 5 and begun or 0
local answering = ready and epoch or 0

-- Each change that a caller builds on has a number of its own, by which an older copy is known.
local function give_number()
  last_grant = last_grant + 1
  call('HSET', META, 'grant', last_grant)
end

local function read(hold)
  local packed = call('HGET', STATE, 'h' .. hold)
  return packed and unpacked(packed)
end
local function write(hold, r, due)
  call('HSET', STATE, 'h' .. hold, pack(r))
  call('ZADD', DUE, due, hold)
end

local function is_live(r) return r[KIND] == HELD.live and r[DEADLINE] > now end
local function counts(r) return r[KIND] == HELD.ordered or is_live(r) end
local function is_forgotten(r)
  return r[KIND] ~= HELD.ordered and r[KIND] ~= HELD.ended and r[DEADLINE] + LIFE_MAX_MS <= now
end

-- The seats of the hold that no later lease and no decision has taken from it, whether it has lapsed or not.
local function covered(hold, r)
  local fields, lease, seats = {}, r[DEADLINE] .. ':' .. hold, {}
  for i, seat in ipairs(r[SEATS]) do fields[i] = 's' .. seat end
  if #fields == 0 then return seats end
  for i, found in ipairs(call('HMGET', STATE, unpack(fields))) do
    if found == lease then seats[#seats + 1] = r[SEATS][i] end
  end
  return seats
end
-- A hold that its owner may see: one with an order, or a live lease of which no decision has taken a seat.
local function stands(hold, r)
  return r[KIND] == HELD.ordered or (is_live(r) and #covered(hold, r) == #r[SEATS])
end

local has_freed = false
local function uncover(hold, r)
  for _, seat in ipairs(covered(hold, r)) do
    has_freed = true
    call('HDEL', STATE, 's' .. seat)
    call('SETBIT', BITS, seat, 0)
  end
end
-- Records of an older version of the program have no address.
local function has_address(r) return r[ADDRESS] ~= nil and r[ADDRESS] ~= '' end
local function address_entry(hold, r) return hold .. ':' .. #r[SEATS] .. ',' end
local function unlist(field, entry)
  local list = call('HGET', STATE, field)
  local from, to = string.find(list or '', entry, 1, true)
  if not from then return end
  list = string.sub(list, 1, from - 1) .. string.sub(list, to + 1)
  if list == '' then call('HDEL', STATE, field) else call('HSET', STATE, field, list) end
end
-- Adds the hold to the lists of its holder and of its address range.
local function enlist(hold, r)
  local field = 'q' .. r[HOLDER]
  call('HSET', STATE, field, (call('HGET', STATE, field) or '') .. hold .. ',')
  if not has_address(r) then return end
  field = 'a' .. r[ADDRESS]
  call('HSET', STATE, field, (call('HGET', STATE, field) or '') .. address_entry(hold, r))
end
-- No seat, no claim of the visitor and no quota entry is left of it.
local function detach(hold, r)
  uncover(hold, r)
  if call('HGET', STATE, 'v' .. r[VISITOR]) == hold then call('HDEL', STATE, 'v' .. r[VISITOR]) end
  unlist('q' .. r[HOLDER], hold .. ',')
  if has_address(r) then unlist('a' .. r[ADDRESS], address_entry(hold, r)) end
end
-- A memory without an end: an id that led to an order stays used up. Its holder, perhaps an account, is not kept for ever.
local function write_ended(hold, r)
  r[HOLDER], r[SEATS] = '', {}
  if r[ADDRESS] then r[ADDRESS] = '' end
  call('HSET', STATE, 'h' .. hold, pack(r))
  call('ZREM', DUE, hold)
end
-- Ends the hold. Its record then only remembers that the id is used up.
local function finish(hold, r, kind)
  detach(hold, r)
  r[KIND] = kind
  if kind == HELD.ended then return write_ended(hold, r) end
  if kind == HELD.released or kind == HELD.replaced then r[DEADLINE] = now end
  write(hold, r, r[DEADLINE] + LIFE_MAX_MS)
end
local function forget(hold, r)
  detach(hold, r)
  call('HDEL', STATE, 'h' .. hold)
  call('ZREM', DUE, hold)
end

local function hold_answer(code, hold, r)
  return { code, hold, r[VISITOR], r[HOLDER], r[ORDER], r[GRANTED], r[DEADLINE], r[GRANT], r[SEATS] }
end
-- The input as numbers, nil when something else is in it.
local function numbers(text)
  if string.find(text, '[^%d ]') then return nil end
  local list = {}
  for digits in string.gmatch(text, '%d+') do list[#list + 1] = tonumber(digits) end
  return list
end
