-- Puts a mark in the place of a damaged ledger, by which nothing is decided on it until a repair replaces it.
-- Returns the count of late sessions that it shows from then on; '' where the ledger has changed since it was read.
-- KEYS: 1 ledger
-- ARGV: 1 that count, by which late decisions and points are refused, then fields and values as they were read
local now = redis.call('HGETALL', KEYS[1])
if #now ~= #ARGV - 1 then
  return ''
end
for at = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[at]) ~= ARGV[at + 1] then
    return ''
  end
end
if redis.call('HEXISTS', KEYS[1], 'damaged') == 1 then
  return redis.call('HGET', KEYS[1], 'lates')
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'damaged', '1', 'lates', ARGV[1])
return ARGV[1]
