-- ARGV: me, partition, old topic id, new topic id, log start
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local partition = ARGV[2]
local part = base .. 'part:' .. partition
local held = redis.call('HMGET', part, 'tid', 'low', 'planned')
if held[1] ~= ARGV[3] then
  return { 'stale' }
end
local time, at = now(), tonumber(held[2])
for _, member in ipairs(redis.call('ZRANGE', base .. 'done:' .. partition, 0, -1)) do
  local first, last = range_of(member)
  record_skip(partition, at, first, 'topic-recreated', time)
  at = last
end
record_skip(partition, at, tonumber(held[3]), 'topic-recreated', time)
clear(partition)
redis.call('HSET', part, 'tid', ARGV[4], 'planned', ARGV[5], 'low', ARGV[5], 'cok', 0, 'epoch', -1)
return { 'done', state_of(partition) }
