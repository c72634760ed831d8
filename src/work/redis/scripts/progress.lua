-- The position that a report leads to, its skips (first, last, why in ARGV from `from` on) recorded. What lies before the
-- position that is stored was recorded before: a repeated call counts once.
local function advance(id, unit, position, from, time)
  local partition = partition_of(id)
  local _, last = range_of(id)
  position = math.min(math.max(tonumber(position), unit.position), last)
  for index = from, #ARGV, 3 do
    local first = math.max(tonumber(ARGV[index]), unit.position)
    local stop = math.min(tonumber(ARGV[index + 1]), position)
    record_skip(partition, first, stop, ARGV[index + 2], time)
  end
  return position
end
