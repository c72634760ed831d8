-- ARGV: me, limit, time-out in ms
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local answer, silent_since = { 'done' }, int(now() - tonumber(ARGV[3]))
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', base .. 'workers', '-inf', silent_since, 'LIMIT', 0, ARGV[2])) do
  reap_list(worker)
  redis.call('ZREM', base .. 'workers', worker)
  answer[#answer + 1] = worker
end
return answer
