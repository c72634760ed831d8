-- ARGV: id, token, delay in ms
local id, delay = ARGV[1], tonumber(ARGV[3])
local unit = held(id, ARGV[2])
if not unit then
  return 0
end
local time = now()
local partition = partition_of(id)
local first, last = range_of(id)
local position = unit.position
release(id, unit.owner)
if position >= last then
  settle(id, unit, position, 'handled', '', {}, time)
  return 1
end
local state, back = 'queued', id
if delay > 0 then
  state = 'delayed'
end
if position > first then
  remove_out(partition, id)
  log_progress(id, unit, position, time)
  back = partition .. '/' .. int(position) .. '-' .. int(last)
  add_out(partition, back, position, state, time)
else
  local attempts = math.max(unit.attempts - 1, 0)
  redis.call('HDEL', base .. 'u:' .. id, 'tok')
  redis.call('HSET', base .. 'u:' .. id, 'st', state, 'since', int(time), 'att', int(attempts))
end
if delay > 0 then
  redis.call('ZADD', base .. 'delayed', int(time + delay), back)
else
  redis.call('LPUSH', base .. 'work', back)
end
add_done(partition, first, position)
return 1
