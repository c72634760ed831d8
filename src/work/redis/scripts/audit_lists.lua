-- ARGV: me, names of workers that have a list
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local reaped = 0
for index = 2, #ARGV do
  if not redis.call('ZSCORE', base .. 'workers', ARGV[index]) then
    reap_list(ARGV[index])
    reaped = reaped + 1
  end
end
return { 'done', int(reaped) }
