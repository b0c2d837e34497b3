-- Deletes the document of a cancelled timer, if it is still that one; that of an open session stays with its timer.
-- KEYS: 1 timers, 2 their documents. ARGV: 1 conversation key, 2 document
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[2] and not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return redis.call('HDEL', KEYS[2], ARGV[1])
end
return 0
