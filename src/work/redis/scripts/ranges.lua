-- Records [first, last) as skipped: a total per partition that is kept for ever, and a trimmed log.
local function record_skip(partition, first, last, why, time)
  if first >= last then
    return
  end
  local part = base .. 'part:' .. partition
  if redis.call('EXISTS', part) == 1 then
    redis.call('HINCRBY', part, 'skipped:' .. why, int(last - first))
  end
  local range = partition .. '/' .. int(first) .. '-' .. int(last)
  redis.call('LPUSH', base .. 'skipped', int(time) .. '\t' .. range .. '\t' .. why)
  redis.call('LTRIM', base .. 'skipped', 0, SKIPPED_LOG_MAX - 1)
end

-- Takes the done range that begins at `first` away and gives its end.
local function take_done(done, first)
  local member = redis.call('ZRANGEBYSCORE', done, int(first), int(first))[1]
  if not member then
    return nil
  end
  redis.call('ZREM', done, member)
  local _, last = range_of(member)
  return last
end

-- Notes that [first, last) is done, and moves `low` over what is done from there on. Ranges that touch become one.
local function add_done(partition, first, last)
  if first >= last then
    return
  end
  local part, done = base .. 'part:' .. partition, base .. 'done:' .. partition
  if tonumber(redis.call('HGET', part, 'low') or '') == first then
    local low = last
    local following = take_done(done, low)
    while following do
      low = following
      following = take_done(done, low)
    end
    redis.call('HSET', part, 'low', int(low))
    return
  end
  last = take_done(done, last) or last
  local before = redis.call('ZREVRANGEBYSCORE', done, '(' .. int(first), '-inf', 'LIMIT', 0, 1)[1]
  if before then
    local start, stop = range_of(before)
    if stop == first then
      redis.call('ZREM', done, before)
      first = start
    end
  end
  redis.call('ZADD', done, int(first), int(first) .. '-' .. int(last))
end
