-- Empties a worker's list: what is queued goes back, in the order it was popped.
local function reap_list(worker)
  local list = base .. 'working:' .. worker
  local ids = redis.call('LRANGE', list, 0, -1)
  for index = #ids, 1, -1 do
    if redis.call('HGET', base .. 'u:' .. ids[index], 'st') == 'queued' then
      redis.call('LPUSH', base .. 'work', ids[index])
    end
  end
  redis.call('DEL', list)
end
