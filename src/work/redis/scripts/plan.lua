-- ARGV: me, partition, topic id, leader epoch, from, skip to (or ''), planned, unit ids
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local partition, from = ARGV[2], tonumber(ARGV[5])
local part = base .. 'part:' .. partition
local held = redis.call('HMGET', part, 'tid', 'cok', 'planned')
if held[1] ~= ARGV[3] or held[2] ~= '1' or held[3] ~= ARGV[5] then
  return { 'stale' }
end
local time, skip_to = now(), tonumber(ARGV[6])
-- The first write: without memory it is refused, and nothing has happened.
redis.call('HSET', part, 'planned', ARGV[7], 'epoch', ARGV[4])
redis.call('SADD', base .. 'partitions', partition)
if skip_to then
  record_skip(partition, from, skip_to, 'retention', time)
end
for index = 8, #ARGV do
  local first = range_of(ARGV[index])
  add_queued(partition, ARGV[index], first, time)
end
if skip_to then
  add_done(partition, from, skip_to)
end
return { 'done', state_of(partition) }
