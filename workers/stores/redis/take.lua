-- Makes a process the owner of a partition, and lowers the handled position to where that process begins.
-- Returns that position, and the number of its writes.
-- KEYS: 1 positions. ARGV: 1 partition, 2 owner, 3 position or '0'
-- Integers are compared as text: the longer one is the greater.
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end
redis.call('HSET', KEYS[1], ARGV[1] .. '@', ARGV[2])
if less(ARGV[3], redis.call('HGET', KEYS[1], ARGV[1]) or '0') then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
redis.call('HINCRBY', KEYS[1], ARGV[1] .. '#', 1)
return {redis.call('HGET', KEYS[1], ARGV[1]) or '0', redis.call('HGET', KEYS[1], ARGV[1] .. '#')}
