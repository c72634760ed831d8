-- Takes the hint and the lease's end away.
local function release(id, owner)
  redis.call('LREM', base .. 'working:' .. owner, 0, id)
  redis.call('ZREM', base .. 'leases', id)
end

-- The wait after failed attempt number `attempt`.
local function backoff(attempt, rules)
  return math.min(rules.backoff * 2 ^ math.min(math.max(attempt - 1, 0), 30), rules.backoff_max)
end

-- Records that `id` was given up.
local function give_up(partition, id, unit, why, time)
  local first, last = range_of(id)
  record_skip(partition, first, last, 'dead-letter', time)
  local topic_id = redis.call('HGET', base .. 'part:' .. partition, 'tid') or ''
  log('error', ERROR_LOG_MAX, int(time), id, unit.owner, int(unit.attempts), why, topic_id)
end

local function log_progress(id, unit, position, time)
  log('complete', COMPLETE_LOG_MAX, int(time), id, unit.owner, int(unit.attempts), int(position))
end

-- Decides what becomes of a unit whose lease ended at `position`: 'complete', 'remainder' with its id, 'delayed', 'dead'.
-- `how`: 'handled', 'failed', 'dead-lettered'.
local function settle(id, unit, position, how, why, rules, time)
  local partition = partition_of(id)
  local first, last = range_of(id)
  if position > first or how == 'dead-lettered' then
    remove_out(partition, id)
    if position > first then
      log_progress(id, unit, position, time)
    end
    local answer = { 'complete' }
    if position < last then
      local rest = partition .. '/' .. int(position) .. '-' .. int(last)
      if how == 'dead-lettered' then
        give_up(partition, rest, unit, why, time)
        position = last
      elseif how == 'handled' then
        add_queued(partition, rest, position, time)
        answer = { 'remainder', rest }
      else
        add_out(partition, rest, position, 'delayed', time, why)
        redis.call('ZADD', base .. 'delayed', int(time + backoff(1, rules)), rest)
        answer = { 'remainder', rest }
      end
    end
    add_done(partition, first, position)
    return answer
  end
  if how == 'handled' then
    why = 'it was handed back without progress'
  end
  local state, due = 'delayed', time + backoff(unit.attempts, rules)
  if unit.attempts >= rules.limit then
    state, due = 'dead', time
  end
  redis.call('HDEL', base .. 'u:' .. id, 'tok')
  redis.call('HSET', base .. 'u:' .. id, 'st', state, 'since', int(time), 'err', why)
  redis.call('ZADD', base .. state, int(due), id)
  return { state }
end
