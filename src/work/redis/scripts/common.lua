-- Shared by every script. Offsets are at most 2^53 - 1: exact as Lua's numbers.

-- A whole number as text. (Lua's own tostring gives 1e+15 from fifteen digits on.)
local function int(number)
  return string.format('%.0f', number)
end

local function leads(id)
  return redis.call('GET', base .. 'leader') == id
end

-- '<topic>/<partition>' of a unit's id; nil if it is no id.
local function partition_of(id)
  return string.match(id, '^(.+)/%d+%-%d+$')
end

-- Start and end of a unit's id or of a member of a done set.
local function range_of(id)
  local first, last = string.match(id, '(%d+)%-(%d+)$')
  return tonumber(first), tonumber(last)
end

local function is_out(id)
  local partition = partition_of(id)
  return partition and redis.call('ZSCORE', base .. 'out:' .. partition, id)
end
