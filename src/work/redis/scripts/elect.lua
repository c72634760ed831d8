-- ARGV: me, lock in ms
local holder = redis.call('GET', base .. 'leader')
if holder and holder ~= ARGV[1] then
  return 0
end
redis.call('SET', base .. 'leader', ARGV[1], 'PX', ARGV[2])
return 1
