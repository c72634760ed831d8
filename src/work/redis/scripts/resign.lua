-- ARGV: me
if leads(ARGV[1]) then
  redis.call('DEL', base .. 'leader')
end
return 1
