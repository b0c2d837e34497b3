-- Replaces the stored state of one conversation atomically; returns 0 where its ledger has changed.
-- Returns -1 where staged keys have expired, -2 where other processes have staged keys that are not among KEYS.
-- KEYS: 1 ledger of the first stage, 2 stub of a conversation in the cold store, 3 set of the names of all staged keys, then
--       all keys to delete or write, staged keys of other processes included, then the own staged keys
-- ARGV: 1 expected applied number, 2 expected number of the unsent outbox or '', 3 count of other ledgers to check, then
--       for each of these: its index in KEYS, expected applied number, number of the outbox or '', late sessions, then
--       the count of staged keys, and the count of fields of each of them, then per key: 'hash', 'numbers' or 'staged',
--       its index in KEYS, the count of words that follow, and these words: fields and texts alternating, numbers, or
--       the index of the staged key
-- a snapshot that is lost left nothing else of the conversation: what was derived again takes the place of its stub
local stub = redis.call('GET', KEYS[2])
if stub and string.sub(stub, -5) ~= ':lost' then
  return 0
end
-- Whether a ledger is as it was read: see commit for the names of outboxes.
local function is_same(ledger, applied, outbox, lates)
  local now = redis.call('HMGET', ledger, 'applied', 'lates')
  local last, late = now[1] or '0', now[2] or '0'
  if last ~= applied or (lates and late ~= lates) then
    return false
  end
  local unsent = redis.call('HMGET', ledger, 'outbox/' .. last, 'outbox/-' .. late)
  return (unsent[1] and last or unsent[2] and '-' .. late or '') == outbox
end
if not is_same(KEYS[1], ARGV[1], ARGV[2]) then
  return 0
end
local at = 4
for _ = 1, tonumber(ARGV[3]) do
  if not is_same(KEYS[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]) then
    return 0
  end
  at = at + 4
end
-- what another process was writing may hold what is erased now
local given = {}
for _, name in ipairs(KEYS) do
  given[name] = true
end
for _, name in ipairs(redis.call('SMEMBERS', KEYS[3])) do
  if not given[name] then
    return -2
  end
end
local staged = tonumber(ARGV[at])
local own = #KEYS - staged
for number = 1, staged do
  -- one that expired while it was written is there, and lacks its beginning
  if redis.call('HLEN', KEYS[own + number]) ~= tonumber(ARGV[at + number]) then
    return -1
  end
end
at = at + 1 + staged
for place = 1, own do
  redis.call('UNLINK', KEYS[place])
end
while at <= #ARGV do
  local kind, key, words = ARGV[at], KEYS[tonumber(ARGV[at + 1])], tonumber(ARGV[at + 2])
  for word = at + 3, at + 2 + words, kind == 'hash' and 2 or 1 do
    if kind == 'staged' then
      redis.call('RENAME', KEYS[tonumber(ARGV[word])], key)
      redis.call('PERSIST', key)
    elseif kind == 'hash' then
      redis.call('HSET', key, ARGV[word], ARGV[word + 1])
    else
      redis.call('ZADD', key, ARGV[word], ARGV[word])
    end
  end
  at = at + 3 + words
end
return 1
