-- Writes fields of a key beside its place, which goes by itself should the process end before it is moved there.
-- KEYS: 1 staged key. ARGV: 1 time to live in ms, then fields and values
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
