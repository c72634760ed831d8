-- ARGV: id, token, worker, position, how, why, attempt limit, back-off in ms, its maximum, skips
local id = ARGV[1]
local unit = held(id, ARGV[2])
if not unit then
  -- The hint may be all that leads to a queued unit, after the store went back in time.
  if redis.call('HGET', base .. 'u:' .. id, 'st') ~= 'queued' then
    redis.call('LREM', base .. 'working:' .. ARGV[3], 0, id)
  end
  return { 'refused' }
end
local time = now()
-- First: a removal is never refused for want of memory, and after it nothing of this script is. Finishing frees memory.
release(id, unit.owner)
local position = advance(id, unit, ARGV[4], 10, time)
local rules = { limit = tonumber(ARGV[7]), backoff = tonumber(ARGV[8]), backoff_max = tonumber(ARGV[9]) }
return settle(id, unit, position, ARGV[5], ARGV[6], rules, time)
