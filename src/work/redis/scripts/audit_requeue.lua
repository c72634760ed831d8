-- ARGV: me, begin of the round in ms, units that were queued since before it and that no list held.
-- One that was pushed since by another is pushed twice: begin decides.
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local time, requeued = now(), 0
for index = 3, #ARGV do
  local id = ARGV[index]
  local unit = redis.call('HMGET', base .. 'u:' .. id, 'st', 'since')
  if unit[1] == 'queued' and tonumber(unit[2] or 0) <= tonumber(ARGV[2]) and is_out(id) then
    redis.call('HSET', base .. 'u:' .. id, 'since', int(time))
    redis.call('LPUSH', base .. 'work', id)
    requeued = requeued + 1
  end
end
return { 'done', int(requeued) }
