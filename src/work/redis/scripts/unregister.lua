-- ARGV: worker
reap_list(ARGV[1])
redis.call('ZREM', base .. 'workers', ARGV[1])
return 1
