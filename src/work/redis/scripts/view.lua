-- ARGV: entries of each log
local newest = tonumber(ARGV[1]) - 1
local function entries(name)
  if newest < 0 then
    return {}
  end
  return redis.call('LRANGE', base .. name, 0, newest)
end
return {
  int(now()),
  redis.call('GET', base .. 'leader') or '',
  { redis.call('LLEN', base .. 'work'), entries('work') },
  redis.call('ZCARD', base .. 'delayed'),
  redis.call('ZCARD', base .. 'leases'),
  redis.call('ZCARD', base .. 'dead'),
  redis.call('SMEMBERS', base .. 'partitions'),
  redis.call('ZRANGE', base .. 'workers', 0, -1, 'WITHSCORES'),
  { redis.call('LLEN', base .. 'complete'), entries('complete') },
  { redis.call('LLEN', base .. 'error'), entries('error') },
  { redis.call('LLEN', base .. 'skipped'), entries('skipped') },
}
