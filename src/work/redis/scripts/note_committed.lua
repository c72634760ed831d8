-- ARGV: me, partition, low
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local part = base .. 'part:' .. ARGV[2]
if redis.call('HGET', part, 'low') ~= ARGV[3] then
  return { 'stale' }
end
redis.call('HSET', part, 'cok', 1)
return { 'done' }
