-- ARGV: worker. The own list first: an id is there if the answer to a former pop was lost.
local list = base .. 'working:' .. ARGV[1]
return redis.call('LINDEX', list, -1) or redis.call('RPOPLPUSH', base .. 'work', list)
