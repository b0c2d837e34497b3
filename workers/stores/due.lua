-- KEYS: 1 timers, 2 their documents. ARGV: 1 microseconds of the latest 'since', 2 limit
-- Returns conversation key and timer by turns, the oldest first, equal ones by key.
local found = {}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])) do
  found[#found + 1] = key
  found[#found + 1] = redis.call('HGET', KEYS[2], key)
end
return found
