-- Gives an unsent outbox that an earlier version wrote the field that has its number in the name.
-- KEYS: 1 ledger
local old = redis.call('HMGET', KEYS[1], 'outbox', 'outbox_number')
if old[1] and old[2] then
  redis.call('HSET', KEYS[1], 'outbox/' .. old[2], old[1])
end
return redis.call('HDEL', KEYS[1], 'outbox', 'outbox_number')
