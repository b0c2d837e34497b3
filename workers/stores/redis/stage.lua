-- Writes fields of a key beside its place, which goes by itself should the process end before it is moved there; returns 0
-- and writes nothing where the conversation is not as it was read.
-- KEYS: 1 staged key, 2 set of the names of all staged keys of the conversation, 3 key that shows how the conversation is
-- ARGV: 1 time to live in ms, 2 field of that key or '' where it is a text, 3 expected text, then fields and values
local now
if ARGV[2] == '' then
  now = redis.call('GET', KEYS[3])
else
  now = redis.call('HGET', KEYS[3], ARGV[2])
end
if (now or '') ~= ARGV[3] then
  return 0
end
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
-- named at least as long as the key itself is there
redis.call('SADD', KEYS[2], KEYS[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return 1
