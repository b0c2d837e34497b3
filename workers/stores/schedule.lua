-- Sets or cancels the timer of a conversation.
-- KEYS: 1 timers, 2 their documents. ARGV: 1 conversation key, 2 'since' in microseconds, 3 timer or '' to cancel
if ARGV[3] == '' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
else
  redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
end
return 1
