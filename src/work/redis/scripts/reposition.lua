-- ARGV: me, partition, topic id, offset, worker time-out in ms
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local partition, to, time = ARGV[2], tonumber(ARGV[4]), now()
local part = base .. 'part:' .. partition
local held = redis.call('HMGET', part, 'tid', 'low')
if held[1] ~= ARGV[3] then
  return { 'stale' }
end
local live = redis.call('ZCOUNT', base .. 'workers', '(' .. int(time - tonumber(ARGV[5])), '+inf')
if live > 0 then
  return { 'done', 'live', int(live) }
end
local at = tonumber(held[2])
for _, member in ipairs(redis.call('ZRANGE', base .. 'done:' .. partition, 0, -1)) do
  local first, last = range_of(member)
  record_skip(partition, at, math.min(first, to), 'reset', time)
  at = last
end
record_skip(partition, at, to, 'reset', time)
clear(partition)
redis.call('HSET', part, 'planned', ARGV[4], 'low', ARGV[4], 'cok', 0, 'epoch', -1)
return { 'done', 'moved', state_of(partition) }
