-- ARGV: id, token, worker, position, how, why, attempt limit, back-off in ms, its maximum, next token, lease in ms, skips
-- Answers: what became of the unit; id, attempt and topic id of the next one, or an empty list.
local worker, token, time = ARGV[3], ARGV[10], now()
local rules = { limit = tonumber(ARGV[7]), backoff = tonumber(ARGV[8]), backoff_max = tonumber(ARGV[9]) }
local finished = finish(ARGV[1], ARGV[2], worker, ARGV[4], ARGV[5], ARGV[6], rules, 12, time)

-- A unit that a former call, whose answer was lost, began under this token; else the next one.
local list, id = base .. 'working:' .. worker, nil
local own = redis.call('LRANGE', list, 0, -1)
for _, entry in ipairs(own) do
  local unit = redis.call('HMGET', base .. 'u:' .. entry, 'st', 'tok')
  if unit[1] == 'leased' and unit[2] == token then
    id = entry
    break
  end
end
id = id or own[#own] or redis.call('RPOPLPUSH', base .. 'work', list)
local partition = id and partition_of(id)
if not partition then
  return { finished, {} }
end

-- Only what is queued is begun. Anything else stays in the own list: claim and begin judge it.
local unit = redis.call('HMGET', base .. 'u:' .. id, 'st', 'tok', 'att')
local again = unit[1] == 'leased' and unit[2] == token
if not (again or unit[1] == 'queued') or not redis.call('ZSCORE', base .. 'out:' .. partition, id) then
  return { finished, {} }
end
local topic_id = redis.call('HGET', base .. 'part:' .. partition, 'tid')
if not topic_id then
  return { finished, {} }
end
redis.call('ZADD', base .. 'workers', int(time), worker)
local attempts = tonumber(unit[3] or 0)
if not again then
  attempts = attempts + 1
  redis.call('HSET', base .. 'u:' .. id, 'st', 'leased', 'since', int(time), 'tok', token, 'att', int(attempts), 'own', worker)
  redis.call('ZADD', base .. 'leases', int(time + tonumber(ARGV[11])), id)
end
return { finished, { id, int(attempts), topic_id } }
