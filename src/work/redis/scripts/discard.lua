-- ARGV: worker, entry, entry for people
redis.call('LREM', base .. 'working:' .. ARGV[1], 0, ARGV[2])
log('error', ERROR_LOG_MAX, int(now()), ARGV[3], ARGV[1], '0', 'the entry is no unit')
return 1
