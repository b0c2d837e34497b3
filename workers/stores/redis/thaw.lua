-- Brings the state of a conversation back that was written to staged keys; returns 0 where another process has done so,
-- -1 where staged keys have expired.
-- KEYS: 1 stub, 2 its name from now on, 3 set of the names of all staged keys of the conversation, then the staged and the
--       final name of each key
-- ARGV: 1 expected text of the stub, then the count of fields of each staged key
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
for place = 4, #KEYS, 2 do
  -- one that expired while it was written is there, and lacks its beginning
  if redis.call('HLEN', KEYS[place]) ~= tonumber(ARGV[place / 2]) then
    return -1
  end
end
for place = 4, #KEYS, 2 do
  redis.call('RENAME', KEYS[place], KEYS[place + 1])
  redis.call('PERSIST', KEYS[place + 1])
  redis.call('SREM', KEYS[3], KEYS[place])
end
redis.call('RENAME', KEYS[1], KEYS[2])
return 1
