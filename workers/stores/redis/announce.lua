-- Names the snapshot that is about to be written, unless the conversation is not as it was read; returns 1 where it did.
-- So what is named after an erasure was read after it, too.
-- KEYS: 1 announced stub, 2 stub, then the ledger of each stage
-- ARGV: 1 text of the stub, 2 time to live in ms, then for each stage the expected applied number, token and late sessions
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
for place = 3, #KEYS do
  local at = 3 * (place - 2)
  local now = redis.call('HMGET', KEYS[place], 'applied', 'token', 'lates')
  if (now[1] or '') ~= ARGV[at] or (now[2] or '') ~= ARGV[at + 1] or (now[3] or '') ~= ARGV[at + 2] then
    return 0
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
