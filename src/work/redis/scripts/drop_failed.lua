-- ARGV: partition, limit
-- Answers: units, offsets of them.
local partition, limit, time = ARGV[1], tonumber(ARGV[2]), now()
local units, records = 0, 0
local function count(first, last)
  units, records = units + 1, records + last - first
end

for _, id in ipairs(dead_of(partition, limit)) do
  local first, last = range_of(id)
  redis.call('ZREM', base .. 'dead', id)
  remove_out(partition, id)
  record_skip(partition, first, last, 'dropped', time)
  add_done(partition, first, last)
  count(first, last)
end
for _, failure in ipairs(errors_of(partition)) do
  if units < limit then
    redis.call('LREM', base .. 'error', -1, failure[1])
    count(range_of(failure[2]))
  end
end
return { int(units), int(records) }
