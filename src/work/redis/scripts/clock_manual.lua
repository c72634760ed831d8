-- Tests only: the time stands still but for what a test does to the key.
local function now()
  return tonumber(redis.call('GET', base .. 'clock'))
end
