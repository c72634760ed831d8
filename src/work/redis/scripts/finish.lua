-- ARGV: id, token, worker, position, how, why, attempt limit, back-off in ms, its maximum, skips
local rules = { limit = tonumber(ARGV[7]), backoff = tonumber(ARGV[8]), backoff_max = tonumber(ARGV[9]) }
return finish(ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], rules, 10, now())
