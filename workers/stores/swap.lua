-- All that is kept of one conversation, replaced in one step.
-- KEYS: 1 ledger of the first stage, then whatever is removed or written
-- ARGV: 1 what it must have applied, 2 the number of its unsent outbox or '', then per key: 'hash' or 'numbers', its
--       place in KEYS, how many words follow, and these: field and text by turns, or numbers
local now = redis.call('HMGET', KEYS[1], 'applied', 'outbox_number')
if (now[1] or '0') ~= ARGV[1] or (now[2] or '') ~= ARGV[2] then
  return 0
end
for _, key in ipairs(KEYS) do
  redis.call('DEL', key)
end
local at = 3
while at <= #ARGV do
  local kind, key, words = ARGV[at], KEYS[tonumber(ARGV[at + 1])], tonumber(ARGV[at + 2])
  for word = at + 3, at + 2 + words, kind == 'hash' and 2 or 1 do
    if kind == 'hash' then
      redis.call('HSET', key, ARGV[word], ARGV[word + 1])
    else
      redis.call('ZADD', key, ARGV[word], ARGV[word])
    end
  end
  at = at + 3 + words
end
return 1
