-- ARGV: id, token, worker, position, how, why, attempt limit, back-off in ms, its maximum, next token, lease in ms,
-- partition, first and last of the unit, skips
-- Answers: what became of the unit; id, attempt and topic id of the next one, or an empty list.
--
-- The script that runs once a unit, so it is written for speed. A whole unit that was handled is settled right here, on
-- texts (numbers cost a conversion each way); the shared functions, each of which costs when it is made, exist in the
-- branch that needs them.
local call = redis.call
local id, token, worker, partition, first, last = ARGV[1], ARGV[2], ARGV[3], ARGV[12], ARGV[13], ARGV[14]
local list, part, time = base .. 'working:' .. worker, base .. 'part:' .. partition, now()
local finished, own, topic_id

if ARGV[4] == last and ARGV[5] == 'handled' and #ARGV == 14 then
  local unit = call('HMGET', base .. 'u:' .. id, 'st', 'tok', 'att', 'own')
  -- First a removal: it is never refused for want of memory, and after it nothing of this script is.
  if unit[1] == 'leased' and unit[2] == token and call('ZREM', base .. 'out:' .. partition, id) == 1 then
    own = call('LRANGE', base .. 'working:' .. unit[4], 0, -1)
    if #own ~= 1 or own[1] ~= id or unit[4] ~= worker then
      call('LREM', base .. 'working:' .. unit[4], 0, id)
      own = nil
    end
    call('ZREM', base .. 'leases', id)
    call('DEL', base .. 'u:' .. id)
    local entry = string.format('%.0f\t%s\t%s\t%s\t%s', time, id, unit[4], unit[3], last)
    if call('LPUSH', base .. 'complete', entry) > COMPLETE_LOG_MAX + LOG_SLACK then
      call('LTRIM', base .. 'complete', 0, COMPLETE_LOG_MAX - 1)
    end

    -- As add_done does it.
    local done, start, stop = base .. 'done:' .. partition, first, last
    local marks = call('HMGET', part, 'low', 'tid')
    topic_id = marks[2]
    local following = call('ZRANGEBYSCORE', done, stop, stop)[1]
    if following then
      call('ZREM', done, following)
      stop = string.match(following, '%-(%d+)$')
    end
    if marks[1] == first then
      following = following and call('ZRANGEBYSCORE', done, stop, stop)[1]
      while following do
        call('ZREM', done, following)
        stop = string.match(following, '%-(%d+)$')
        following = call('ZRANGEBYSCORE', done, stop, stop)[1]
      end
      call('HSET', part, 'low', stop)
    else
      local before = call('ZREVRANGEBYSCORE', done, '(' .. first, '-inf', 'LIMIT', 0, 1)[1]
      local from, to
      if before then
        from, to = string.match(before, '^(%d+)%-(%d+)$')
      end
      if to == first then
        call('ZREM', done, before)
        start = from
      end
      call('ZADD', done, start, start .. '-' .. stop)
    end
    finished = { 'complete' }
  end
end

if not finished then
  -- (shared parts)
  local rules = { limit = tonumber(ARGV[7]), backoff = tonumber(ARGV[8]), backoff_max = tonumber(ARGV[9]) }
  finished = finish(id, token, worker, ARGV[4], ARGV[5], ARGV[6], rules, 15, time)
  topic_id = nil
end

token, id = ARGV[10], nil
if own then
  -- The list holds what was just finished and nothing else: the next entry takes its place.
  id = call('RPOP', base .. 'work')
  if not id then
    call('DEL', list)
    return { finished, {} }
  end
  call('LSET', list, 0, id)
else
  -- A unit that a former call, whose answer was lost, began under this token; else the next one.
  own = call('LRANGE', list, 0, -1)
  for _, entry in ipairs(own) do
    local unit = call('HMGET', base .. 'u:' .. entry, 'st', 'tok')
    if unit[1] == 'leased' and unit[2] == token then
      id = entry
      break
    end
  end
  id = id or own[#own] or call('RPOPLPUSH', base .. 'work', list)
  if not id then
    return { finished, {} }
  end
end

-- Only what is queued is begun. Anything else stays in the own list: claim and begin judge it.
local of = string.match(id, '^(.+)/%d+%-%d+$')
if not of then
  return { finished, {} }
end
local unit = call('HMGET', base .. 'u:' .. id, 'st', 'tok', 'att')
local again = unit[1] == 'leased' and unit[2] == token
if not (again or unit[1] == 'queued') or not call('ZSCORE', base .. 'out:' .. of, id) then
  return { finished, {} }
end
if of ~= partition or not topic_id then
  topic_id = call('HGET', base .. 'part:' .. of, 'tid')
end
if not topic_id then
  return { finished, {} }
end
local attempts = tonumber(unit[3] or 0)
if not again then
  attempts = attempts + 1
  call('HSET', base .. 'u:' .. id, 'st', 'leased', 'since', time, 'tok', token, 'att', attempts, 'own', worker)
  call('ZADD', base .. 'leases', time + tonumber(ARGV[11]), id)
end
return { finished, { id, attempts, topic_id } }
