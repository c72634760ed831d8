-- ARGV: me, limit
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local time, promoted = now(), 0
for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'delayed', '-inf', int(time), 'LIMIT', 0, ARGV[2])) do
  redis.call('ZREM', base .. 'delayed', id)
  if keep_if_out(id) and redis.call('HGET', base .. 'u:' .. id, 'st') == 'delayed' then
    redis.call('HSET', base .. 'u:' .. id, 'st', 'queued', 'since', int(time))
    redis.call('LPUSH', base .. 'work', id)
    promoted = promoted + 1
  end
end
return { 'done', int(promoted) }
