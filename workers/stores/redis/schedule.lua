-- Sets or cancels the timer of a conversation; returns 0 where the stored one is of a later decision.
-- KEYS: 1 timers, 2 their documents
-- ARGV: 1 conversation key, 2 'since' in microseconds or '' to cancel, 3 timer, 4 number of its decision
-- The document of a cancelled timer stays, for its number. Numbers are compared as text: the longer one is the greater.
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end
local last = redis.call('HGET', KEYS[2], ARGV[1])
-- a damaged document has no number, and is replaced
if last and less(ARGV[4], string.match(last, '"number":(%d+)}$') or '0') then
  return 0
end
if ARGV[2] == '' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return 1
