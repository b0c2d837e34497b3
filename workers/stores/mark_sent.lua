-- Deletes an outbox that was sent; a later outbox stays.
-- KEYS: 1 ledger. ARGV: 1 number of the outbox that was sent
if redis.call('HGET', KEYS[1], 'outbox_number') ~= ARGV[1] then
  return 0
end
redis.call('HDEL', KEYS[1], 'outbox', 'outbox_number')
return 1
