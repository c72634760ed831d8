-- ARGV: me, partition, first start, limit, begin of the round in ms, lease in ms
-- Answers: whether the partition was dropped, what was restored, the next start or '', units queued since before the round
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local partition, time = ARGV[2], now()
local part, out = base .. 'part:' .. partition, base .. 'out:' .. partition
local marks = redis.call('HMGET', part, 'low', 'planned')
if not marks[1] then
  return { 'done', 0, 0, '', {} }
end

local function is_tiled()
  local tiles = {}
  for _, id in ipairs(redis.call('ZRANGE', out, 0, -1)) do
    local first, last = range_of(id)
    tiles[#tiles + 1] = { first, last }
  end
  for _, member in ipairs(redis.call('ZRANGE', base .. 'done:' .. partition, 0, -1)) do
    local first, last = range_of(member)
    tiles[#tiles + 1] = { first, last }
  end
  table.sort(tiles, function(a, b) return a[1] < b[1] end)
  local at = tonumber(marks[1])
  for _, tile in ipairs(tiles) do
    if tile[1] ~= at then
      return false
    end
    at = tile[2]
  end
  return at == tonumber(marks[2])
end

if ARGV[3] == '0' and not is_tiled() then
  clear(partition)
  redis.call('DEL', part)
  return { 'done', 1, 0, '', {} }
end

local restored, old, following = 0, {}, ''
local function restore(name, id, due)
  if not redis.call('ZSCORE', base .. name, id) then
    redis.call('ZADD', base .. name, int(due), id)
    restored = restored + 1
  end
end

local ids = redis.call('ZRANGEBYSCORE', out, ARGV[3], '+inf', 'LIMIT', 0, ARGV[4])
for _, id in ipairs(ids) do
  local first = range_of(id)
  local unit = redis.call('HMGET', base .. 'u:' .. id, 'st', 'since')
  if not unit[1] then
    redis.call('HSET', base .. 'u:' .. id, 'st', 'queued', 'since', int(time), 'att', 0, 'pos', int(first))
    redis.call('LPUSH', base .. 'work', id)
    restored = restored + 1
  elseif unit[1] == 'queued' then
    if tonumber(unit[2] or 0) <= tonumber(ARGV[5]) then
      old[#old + 1] = id
    end
  elseif unit[1] == 'leased' then
    restore('leases', id, time + tonumber(ARGV[6]))
  else
    restore(unit[1], id, time)
  end
  following = int(first + 1)
end
if #ids < tonumber(ARGV[4]) then
  following = ''
end
return { 'done', 0, restored, following, old }
