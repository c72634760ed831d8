local function log(name, limit, ...)
  redis.call('LPUSH', base .. name, table.concat({ ... }, '\t'))
  redis.call('LTRIM', base .. name, 0, limit - 1)
end

-- Adds an outstanding unit that nobody has begun. The state of a former unit of that id must not shine through.
local function add_out(partition, id, first, state, time, why)
  redis.call('ZADD', base .. 'out:' .. partition, int(first), id)
  redis.call('DEL', base .. 'u:' .. id)
  redis.call('HSET', base .. 'u:' .. id, 'st', state, 'since', int(time), 'att', 0, 'pos', int(first))
  if why then
    redis.call('HSET', base .. 'u:' .. id, 'err', why)
  end
end

local function add_queued(partition, id, first, time)
  add_out(partition, id, first, 'queued', time)
  redis.call('LPUSH', base .. 'work', id)
end

-- Takes a unit out of everything but the hints.
local function remove_out(partition, id)
  redis.call('ZREM', base .. 'out:' .. partition, id)
  redis.call('DEL', base .. 'u:' .. id)
end

-- Whether the unit is outstanding; the state of one that is not is dropped.
local function keep_if_out(id)
  if is_out(id) then
    return true
  end
  redis.call('DEL', base .. 'u:' .. id)
  return false
end

-- A unit's state, as a table.
local function unit_of(id)
  local u = redis.call('HMGET', base .. 'u:' .. id, 'st', 'tok', 'att', 'own', 'pos', 'err')
  if not u[1] then
    return nil
  end
  return {
    state = u[1],
    token = u[2],
    attempts = tonumber(u[3] or 0),
    owner = u[4] or '',
    position = tonumber(u[5] or 0),
    why = u[6] or '',
  }
end

-- A unit's state if `token` holds its lease; else nil.
local function held(id, token)
  local unit = unit_of(id)
  if unit and unit.state == 'leased' and unit.token == token and is_out(id) then
    return unit
  end
  return nil
end
