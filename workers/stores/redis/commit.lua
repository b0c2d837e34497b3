-- Commits one decision of a stage atomically; returns 0 where the fence refuses it.
-- KEYS: 1 ledger, 2 numbers of parked sessions, 3 parked events of one session, 4 stub, 5 ledger of intake, 6 … tables
-- ARGV: 1 expected applied number, 2 new applied number, 3 token of this commit, 4 outbox or '', 5 its number or '',
--       6 '1' to record as skipped, 7 session to unpark or '', 8 time to live in ms or '', 9 expected late sessions,
--       10 number of a late session or '', 11 expected id of this server's process or '', 12 id of the data key or '',
--       13 expected token of its last return from the cold store, '' for none, '*' for any,
--       14 expected token of the last commit, the same way, then per write: kind, index of the table in KEYS, id, text
-- Numbers are compared as text: a log position may not fit a Lua number.
local ledger = KEYS[1]
-- an outbox has the number of the last session, or of the last late one with a minus
local now = redis.call('HMGET', ledger, 'applied', 'token', 'lates', 'key', 'thawed', 'outbox/' .. ARGV[1],
  'outbox/-' .. ARGV[9])
-- the same commit again: the client repeats it when the answer was lost
if now[2] == ARGV[3] then
  return 1
end
local thawed = now[5]
if not now[1] then
  -- no ledger: the stage has decided nothing yet, or the state has gone to the cold store since it was read
  if redis.call('EXISTS', KEYS[4]) == 1 then
    return 0
  end
  thawed = redis.call('HGET', KEYS[5], 'thawed')
end
-- gone to the cold store, and come back
if ARGV[13] ~= '*' and (thawed or '') ~= ARGV[13] then
  return 0
end
-- a store that went back may show the same numbers of another decision
if ARGV[14] ~= '*' and (now[2] or '') ~= ARGV[14] then
  return 0
end
if (now[1] or '0') ~= ARGV[1] or (now[3] or '0') ~= ARGV[9] or now[6] or now[7] then
  return 0
end
if now[4] and now[4] ~= ARGV[12] then
  return 0
end
if ARGV[11] ~= '' and not string.find(redis.call('INFO', 'server'), 'run_id:' .. ARGV[11], 1, true) then
  return 0
end
local late = ARGV[10] ~= ''
local skipped = 'skipped/' .. (late and ARGV[10] or ARGV[2])
if late and redis.call('HEXISTS', ledger, skipped) == 0 then
  return 0
end
-- what follows each other and is of one kind and table is done by one command; it takes so many words at most
local commands = {put = 'HSET', drop = 'HDEL'}
local most, words, target, command = 2000, {}, nil, nil
local function send()
  if target then
    redis.call(command, target, unpack(words))
    words, target = {}, nil
  end
end
for at = 15, #ARGV, 4 do
  local kind, tbl = ARGV[at], KEYS[tonumber(ARGV[at + 1])]
  if commands[kind] ~= command or tbl ~= target or #words >= most then
    send()
  end
  if kind == 'clear' then
    redis.call('DEL', tbl)
  else
    target, command, words[#words + 1] = tbl, commands[kind], ARGV[at + 2]
    if kind == 'put' then
      words[#words + 1] = ARGV[at + 3]
    end
  end
end
send()
if late then
  redis.call('HINCRBY', ledger, 'lates', 1)
  redis.call('HDEL', ledger, skipped)
end
local fields = {'applied', ARGV[2], 'token', ARGV[3]}
local function note(field, value)
  fields[#fields + 1], fields[#fields + 2] = field, value
end
if not now[1] and thawed then
  note('thawed', thawed)
end
if ARGV[12] ~= '' then
  note('key', ARGV[12])
end
if ARGV[4] ~= '' then
  note('outbox/' .. ARGV[5], ARGV[4])
end
if ARGV[6] == '1' then
  note(skipped, '1')
end
redis.call('HSET', ledger, unpack(fields))
if ARGV[7] ~= '' and redis.call('ZREM', KEYS[2], ARGV[7]) == 1 then
  redis.call('DEL', KEYS[3])
end
if ARGV[8] ~= '' then
  redis.call('PEXPIRE', ledger, ARGV[8])
end
return 1
