-- ARGV: worker
redis.call('ZADD', base .. 'workers', int(now()), ARGV[1])
return 1
