-- ARGV: me, limit, wait in ms before it comes again
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local time, answer = now(), { 'done' }
for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'dead', '-inf', int(time), 'LIMIT', 0, ARGV[2])) do
  redis.call('ZREM', base .. 'dead', id)
  if keep_if_out(id) then
    local unit = unit_of(id)
    local topic_id = redis.call('HGET', base .. 'part:' .. partition_of(id), 'tid')
    if unit and unit.state == 'dead' and topic_id then
      redis.call('ZADD', base .. 'dead', int(time + tonumber(ARGV[3])), id)
      answer[#answer + 1] = { id, topic_id, int(unit.attempts), unit.owner, unit.why }
    end
  end
end
return answer
