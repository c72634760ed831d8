-- ARGV: id, token, worker, lease in ms
local id, time = ARGV[1], now()
local unit_key = base .. 'u:' .. id
redis.call('ZADD', base .. 'workers', int(time), ARGV[3])
local out = is_out(id)
local topic_id = out and redis.call('HGET', base .. 'part:' .. partition_of(id), 'tid')
if not topic_id then
  if not out then
    redis.call('DEL', unit_key)
  end
  redis.call('LREM', base .. 'working:' .. ARGV[3], 0, id)
  return { 'gone' }
end
local unit = redis.call('HMGET', unit_key, 'st', 'tok', 'att')
local attempts = tonumber(unit[3] or 0)
if unit[1] == 'leased' and unit[2] == ARGV[2] then
  return { 'leased', int(attempts), topic_id }
end
if unit[1] ~= 'queued' then
  redis.call('LREM', base .. 'working:' .. ARGV[3], 0, id)
  return { 'taken' }
end
attempts = attempts + 1
redis.call('HSET', unit_key, 'st', 'leased', 'since', int(time), 'tok', ARGV[2], 'att', int(attempts), 'own', ARGV[3])
redis.call('ZADD', base .. 'leases', int(time + tonumber(ARGV[4])), id)
return { 'leased', int(attempts), topic_id }
