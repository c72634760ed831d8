-- ARGV: me, id, topic id
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local id = ARGV[2]
local partition, unit = partition_of(id), unit_of(id)
local topic_id = redis.call('HGET', base .. 'part:' .. partition, 'tid')
if not unit or unit.state ~= 'dead' or topic_id ~= ARGV[3] or not is_out(id) then
  return { 'stale' }
end
local first, last = range_of(id)
redis.call('ZREM', base .. 'dead', id)
remove_out(partition, id)
give_up(partition, id, unit, unit.why, now())
add_done(partition, first, last)
return { 'done' }
