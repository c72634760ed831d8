-- Whether all of [first, last) is done.
local function is_done(partition, first, last)
  local low = tonumber(redis.call('HGET', base .. 'part:' .. partition, 'low') or '')
  if not low or last <= low then
    return low ~= nil
  end
  local around = redis.call('ZREVRANGEBYSCORE', base .. 'done:' .. partition, int(first), '-inf', 'LIMIT', 0, 1)[1]
  local _, stop = range_of(around or '')
  return stop ~= nil and last <= stop
end

-- Takes [first, last), which is done, out of what is done. `low` goes back to it if it lies below.
local function take_back(partition, first, last)
  local part, done = base .. 'part:' .. partition, base .. 'done:' .. partition
  local from, to = first, tonumber(redis.call('HGET', part, 'low'))
  if last <= to then
    redis.call('HSET', part, 'low', int(first))
  else
    local around = redis.call('ZREVRANGEBYSCORE', done, int(first), '-inf', 'LIMIT', 0, 1)[1]
    from, to = range_of(around)
    redis.call('ZREM', done, around)
  end
  if from < first then
    redis.call('ZADD', done, int(from), int(from) .. '-' .. int(first))
  end
  if last < to then
    redis.call('ZADD', done, int(last), int(last) .. '-' .. int(to))
  end
end

-- At most `limit` dead units of a partition, from the lowest on.
local function dead_of(partition, limit)
  local dead = {}
  if redis.call('EXISTS', base .. 'part:' .. partition) == 0 then
    return dead
  end
  for _, id in ipairs(redis.call('ZRANGE', base .. 'out:' .. partition, 0, -1)) do
    if #dead >= limit then
      break
    end
    if redis.call('HGET', base .. 'u:' .. id, 'st') == 'dead' then
      dead[#dead + 1] = id
    end
  end
  return dead
end

-- The entries of the list of errors that are of a partition, the oldest first: entry, unit's id and topic id. Those
-- that are no unit have no topic id.
local function errors_of(partition)
  local errors = {}
  local entries = redis.call('LRANGE', base .. 'error', 0, -1)
  for index = #entries, 1, -1 do
    local id, topic_id = string.match(entries[index], '^%d+\t([^\t]*)\t[^\t]*\t%d+\t[^\t]*\t?([^\t]*)$')
    if id and topic_id ~= '' and partition_of(id) == partition then
      errors[#errors + 1] = { entries[index], id, topic_id }
    end
  end
  return errors
end
