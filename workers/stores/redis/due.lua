-- Lists due timers: conversation key and timer alternate, oldest first, equal ones by key.
-- KEYS: 1 timers, 2 their documents. ARGV: 1 the latest 'since' in microseconds, 2 limit
local found = {}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])) do
  found[#found + 1] = key
  found[#found + 1] = redis.call('HGET', KEYS[2], key)
end
return found
