-- ARGV: me
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
return { 'done', int(now()), redis.call('SMEMBERS', base .. 'partitions') }
