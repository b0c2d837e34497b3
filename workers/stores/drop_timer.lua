-- Deletes the document of a cancelled timer, if it is still that one.
-- KEYS: 1 documents of timers. ARGV: 1 conversation key, 2 document
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then
  return redis.call('HDEL', KEYS[1], ARGV[1])
end
return 0
