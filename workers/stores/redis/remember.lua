-- Records the handled positions of partitions, each unless writes were lost or another process owns the partition.
-- KEYS: 1 positions or a key that is not used, then for each witness a ledger and the parked events of a session
-- ARGV: for each partition: 1 its field or '' to look at witnesses only, 2 owner, 3 position, 4 expected position or '0',
--       5 expected number of writes or '0', 6 number of its witnesses, then for each of these the least 'applied', the
--       least 'lates', '1' where the outbox of these must be sent, the number of the parked session, a slot or ''
-- Returns for each partition the position stored before or '0', the number of writes before, '1' where the owner is
-- right, then the places of its witnesses of which less is stored, from 1 on. A smaller position than the stored one is
-- a write of that.
-- Integers are compared as text: the longer one is the greater.
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end
local function shows(ledger, parked, least, lates, sent, number, slot)
  local now = redis.call('HMGET', ledger, 'applied', 'lates', 'outbox/' .. least, 'outbox/-' .. lates)
  local applied = now[1] or '0'
  if less(applied, least) or less(now[2] or '0', lates) then
    return false
  end
  if sent == '1' and (now[3] or now[4]) then
    return false
  end
  return slot == '' or not less(applied, number) or redis.call('HEXISTS', parked, slot) == 1
end
local function write(place, position, now, writes)
  local counted = string.format('%.0f', tonumber(writes) + 1)
  redis.call('HSET', KEYS[1], place, less(now, position) and position or now, place .. '#', counted)
end
local answers, at, key = {}, 1, 2
while at <= #ARGV do
  local place, owner, position, least, least_writes = unpack(ARGV, at, at + 4)
  local found, witnesses = {'0', '0', '1'}, tonumber(ARGV[at + 5])
  at = at + 6
  for witness = 1, witnesses do
    if not shows(KEYS[key], KEYS[key + 1], unpack(ARGV, at, at + 4)) then
      found[#found + 1] = tostring(witness)
    end
    at, key = at + 5, key + 2
  end
  if place ~= '' then
    local stored = redis.call('HMGET', KEYS[1], place, place .. '#', place .. '@')
    local now, writes = stored[1] or '0', stored[2] or '0'
    found[1], found[2] = now, writes
    if stored[3] and stored[3] ~= owner then
      found[3] = '0'
    elseif #found == 3 and not less(now, least) and not less(writes, least_writes) then
      write(place, position, now, writes)
    end
  end
  answers[#answers + 1] = found
end
return answers
