-- ARGV: me, partitions
if not leads(ARGV[1]) then
  return { 'not-leader' }
end
local answer = { 'done' }
for index = 2, #ARGV do
  answer[index] = state_of(ARGV[index]) or {}
end
return answer
