-- ARGV: id, token, position, lease in ms, skips
local unit = held(ARGV[1], ARGV[2])
if not unit then
  return 0
end
local time = now()
local position = advance(ARGV[1], unit, ARGV[3], 5, time)
redis.call('HSET', base .. 'u:' .. ARGV[1], 'pos', int(position))
redis.call('ZADD', base .. 'leases', int(time + tonumber(ARGV[4])), ARGV[1])
return 1
