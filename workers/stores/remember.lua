-- Records the handled position of a partition; a smaller position is ignored.
-- KEYS: 1 positions. ARGV: 1 partition, 2 position
-- Integers are compared as text: the longer one is the greater.
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end
local now = redis.call('HGET', KEYS[1], ARGV[1])
if now and not less(now, ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
