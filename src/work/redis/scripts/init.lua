-- ARGV: me, partition, topic id, first offset, log start
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local partition = ARGV[2]
local part = base .. 'part:' .. partition
if redis.call('EXISTS', part) == 1 then
  return { 'stale' }
end
clear(partition)
local first = tonumber(ARGV[4])
local start = math.max(first, tonumber(ARGV[5]))
redis.call('HSET', part, 'tid', ARGV[3], 'planned', int(start), 'low', int(start), 'cok', 0, 'epoch', -1)
redis.call('SADD', base .. 'partitions', partition)
record_skip(partition, first, start, 'retention', now())
return { 'done', state_of(partition) }
