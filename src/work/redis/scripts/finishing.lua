-- Ends a lease and settles the unit: what settle answers, or { 'refused' }. Skips are in ARGV from `skips` on.
local function finish(id, token, worker, position, how, why, rules, skips, time)
  local unit = held(id, token)
  if not unit then
    -- The hint may be all that leads to a queued unit, after the store went back in time.
    if redis.call('HGET', base .. 'u:' .. id, 'st') ~= 'queued' then
      redis.call('LREM', base .. 'working:' .. worker, 0, id)
    end
    return { 'refused' }
  end
  -- First: a removal is never refused for want of memory, and after it nothing of this script is. Finishing frees memory.
  release(id, unit.owner)
  position = advance(id, unit, position, skips, time)
  return settle(id, unit, position, how, why, rules, time)
end
