-- GCRA on the clock of the server.
-- KEYS: 1 theoretical arrival time. ARGV: 1 microseconds per request, 2 microseconds of burst, 3 cost
-- Returns the microseconds to wait; not over 0 where the requests are admitted: minus the burst that is left
local now = redis.call('TIME')
local at = tonumber(now[1]) * 1000000 + tonumber(now[2])
local interval, tolerance, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local arrival = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), at) + interval * cost
local early = arrival - tolerance - at
if early > 0 then
  return math.ceil(early)
end
redis.call('SET', KEYS[1], string.format('%.0f', arrival), 'PX', math.ceil((arrival - at) / 1000) + 1000)
return math.floor(early)
