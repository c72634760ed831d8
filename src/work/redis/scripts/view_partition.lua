-- ARGV: partition, units. Answers an empty list if there is no such partition.
local partition, newest = ARGV[1], tonumber(ARGV[2]) - 1
local state = state_of(partition)
if not state then
  return {}
end
local units, done, skipped = {}, {}, {}
if newest >= 0 then
  for index, id in ipairs(redis.call('ZRANGE', base .. 'out:' .. partition, 0, newest)) do
    local unit = redis.call('HMGET', base .. 'u:' .. id, 'st', 'since', 'att', 'own', 'pos', 'err')
    for field = 1, 6 do
      unit[field] = unit[field] or ''
    end
    units[index] = { id, unpack(unit) }
  end
  done = redis.call('ZRANGE', base .. 'done:' .. partition, 0, newest)
end
local fields = redis.call('HGETALL', base .. 'part:' .. partition)
for index = 1, #fields, 2 do
  local why = string.match(fields[index], '^skipped:(.+)$')
  if why then
    skipped[#skipped + 1] = why
    skipped[#skipped + 1] = fields[index + 1]
  end
end
return { int(now()), state, units, done, skipped }
