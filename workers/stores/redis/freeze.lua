-- Takes the state of an idle conversation out of this server, once a snapshot of it was written; returns 0 and changes
-- nothing where it is not as it was read.
-- KEYS: 1 stub, 2 announced stub, 3 stub that was brought back last, then for each stage its ledger and the numbers of its parked sessions, then all tables
-- ARGV: 1 text of the stub, 2 number of stages, then for each the expected applied number, token and late sessions,
--       then for each table the expected number of fields
-- the same again: the client repeats it when the answer was lost
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return 1
end
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
local stages = tonumber(ARGV[2])
for stage = 1, stages do
  local at = 3 * stage
  -- with the same token there is no outbox that was not there when it was read
  local now = redis.call('HMGET', KEYS[2 * stage + 2], 'applied', 'token', 'lates')
  if (now[1] or '') ~= ARGV[at] or (now[2] or '') ~= ARGV[at + 1] or (now[3] or '') ~= ARGV[at + 2] then
    return 0
  end
  if redis.call('EXISTS', KEYS[2 * stage + 3]) == 1 then
    return 0
  end
end
-- what was cited for an ask is written beside a ledger of that ask
for number = 1, #KEYS - 3 - 2 * stages do
  if redis.call('HLEN', KEYS[3 + 2 * stages + number]) ~= tonumber(ARGV[2 + 3 * stages + number]) then
    return 0
  end
end
for place = 2, #KEYS do
  redis.call('UNLINK', KEYS[place])
end
redis.call('SET', KEYS[1], ARGV[1])
return 1
