-- decisions: applies Postgres's decisions to a partition; follows partition.lua in load, project, open.
-- RULES A version that is not higher is ignored. `available` takes back a decision, never a hold; the others end the seat's
--       lease, and its hold is then no longer valid (S5). A seat of another partition is ignored.
local has_decided = false
local function decide(seat, version, code)
  if seat > last_seat then return end
  local was = call('GETRANGE', CODES, seat, seat)
  if was == 'x' then return end
  if version <= tonumber(call('HGET', STATE, 'd' .. seat) or 1) then return end
  has_decided = true
  call('HSET', STATE, 'd' .. seat, version)
  call('SETRANGE', CODES, seat, code)
  if code ~= 0 then
    call('HDEL', STATE, 's' .. seat)
    call('SETBIT', BITS, seat, 1)
  elseif was ~= '0' then
    call('SETBIT', BITS, seat, 0)
  end
end

local function decide_phase(to, version)
  if to == nil or version <= phase_version then return end
  has_decided = true
  phase, phase_version = to, version
  call('HSET', META, 'phase', to, 'phase_version', version)
end
