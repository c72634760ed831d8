-- Topic id, planned, low, committed, leader epoch, outstanding; nil if there is no such partition.
local function state_of(partition)
  local part = redis.call('HMGET', base .. 'part:' .. partition, 'tid', 'planned', 'low', 'cok', 'epoch')
  if not part[1] then
    return nil
  end
  part[6] = int(redis.call('ZCARD', base .. 'out:' .. partition))
  return part
end

-- Drops every unit and done range of a partition.
local function clear(partition)
  local out = base .. 'out:' .. partition
  for _, id in ipairs(redis.call('ZRANGE', out, 0, -1)) do
    redis.call('DEL', base .. 'u:' .. id)
  end
  redis.call('DEL', out, base .. 'done:' .. partition)
end
