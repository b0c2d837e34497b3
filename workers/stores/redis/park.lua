-- Parks an event once; returns 0 where its session is applied already, and the id of the data key that the state is
-- sealed with where the event is sealed with another one.
-- KEYS: 1 ledger, 2 numbers of parked sessions, 3 parked events of this session
-- ARGV: 1 session number, 2 slot, 3 event, 4 id of its data key or ''
-- Integers are compared as text: the longer one is the greater.
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end
if not less(redis.call('HGET', KEYS[1], 'applied') or '0', ARGV[1]) then
  return 0
end
local key = redis.call('HGET', KEYS[1], 'key')
if key and ARGV[4] ~= '' and key ~= ARGV[4] then
  return key
end
redis.call('HSETNX', KEYS[3], ARGV[2], ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[1], ARGV[1])
return 1
