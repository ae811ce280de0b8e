-- grant: the quotas of holder and address range, and the writes of a granted claim; follows units.lua and precedes hold.lua.
-- RULES S3 S6 S7
local function used_of(ids)
  local used = 0
  for id in string.gmatch(ids, '[^,]+') do
    local r = read(id)
    if r and counts(r) then used = used + #r[SEATS] end
  end
  return used
end

-- The seats that count for an address range. Its list says how many at most: records are read only where that matters.
local function used_from(list, most, own_id)
  local used = 0
  for count in string.gmatch(list, ':(%d+),') do used = used + count end
  if used <= most then return used end
  used = 0
  for id in string.gmatch(list, '([^:,]+):%d+,') do
    local r = id ~= own_id and read(id)
    if r and counts(r) then used = used + #r[SEATS] end
  end
  return used
end

-- `ids`: of the holder's holds; `list`: of the address range's. The deadlines of a call's grants go into `due` together, at its end.
local due_of = {}
local function grant(at, seats, deadline, ids, list, own_id, own)
  local hold, visitor, holder, address = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 5]
  -- A replacement goes on with the old lease, so that a chain of them does not outlive the bound (S6).
  local granted = now
  if own then
    granted, deadline = own[GRANTED], own[DEADLINE]
    due_of[own_id] = nil
    finish(own_id, own, HELD.replaced)
    local lists = call('HMGET', STATE, 'q' .. holder, 'a' .. address)
    ids, list = lists[1] or '', lists[2] or ''
  end
  last_grant = last_grant + 1
  local r = { HELD.live, visitor, holder, ARGV[at + 3], granted, deadline, last_grant, '', seats, address }
  -- Formats each number once. Otherwise Redis would format it in every command, which costs more than the command itself.
  local until_text = string.format('%d', deadline)
  local lease = until_text .. ':' .. hold
  local fields = { 'h' .. hold, pack(r), 'v' .. visitor, hold, 'q' .. holder, ids .. hold .. ',' }
  if address ~= '' then
    fields[#fields + 1] = 'a' .. address
    fields[#fields + 1] = list .. address_entry(hold, r)
  end
  for _, seat in ipairs(seats) do
    local no = string.format('%d', seat)
    call('SETBIT', BITS, no, '1')
    fields[#fields + 1] = 's' .. no
    fields[#fields + 1] = lease
  end
  call('HSET', STATE, unpack(fields))
  due_of[hold] = until_text
  return { CODE.granted, granted, deadline, last_grant, seats }
end

local function write_due()
  local list = {}
  for hold, deadline in pairs(due_of) do
    list[#list + 1] = deadline
    list[#list + 1] = hold
  end
  if #list > 0 then call('ZADD', DUE, unpack(list)) end
end
