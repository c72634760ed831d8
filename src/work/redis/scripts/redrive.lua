-- ARGV: partition, limit
-- Answers: units, offsets of them.
local partition, limit, time = ARGV[1], tonumber(ARGV[2]), now()
local units, records = 0, 0
local function queue(id)
  local first, last = range_of(id)
  add_queued(partition, id, first, time)
  units, records = units + 1, records + last - first
end

for _, id in ipairs(dead_of(partition, limit)) do
  redis.call('ZREM', base .. 'dead', id)
  queue(id)
end
local held = redis.call('HGET', base .. 'part:' .. partition, 'tid')
for _, failure in ipairs(errors_of(partition)) do
  local entry, id, topic_id = unpack(failure)
  local first, last = range_of(id)
  if units < limit and topic_id == held and is_done(partition, first, last) then
    redis.call('LREM', base .. 'error', -1, entry)
    take_back(partition, first, last)
    queue(id)
  end
end
return { int(units), int(records) }
