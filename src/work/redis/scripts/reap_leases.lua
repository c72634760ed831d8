-- ARGV: me, limit, attempt limit, back-off in ms, its maximum
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local time, answer = now(), { 'done' }
local rules = { limit = tonumber(ARGV[3]), backoff = tonumber(ARGV[4]), backoff_max = tonumber(ARGV[5]) }
for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'leases', '-inf', int(time), 'LIMIT', 0, ARGV[2])) do
  redis.call('ZREM', base .. 'leases', id)
  local unit = keep_if_out(id) and unit_of(id)
  if unit and unit.state == 'leased' then
    release(id, unit.owner)
    local why = 'the lease of worker ' .. unit.owner .. ' ran out'
    answer[#answer + 1] = { id, unit.owner, settle(id, unit, unit.position, 'failed', why, rules, time) }
  end
end
return answer
