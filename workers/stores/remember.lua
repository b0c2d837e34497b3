-- Records the handled position of a partition, unless writes were lost or another process owns the partition.
-- KEYS: 1 positions or a key that is not used, then for each witness a ledger and the parked events of a session
-- ARGV: 1 partition or '' to look at witnesses only, 2 owner, 3 position, 4 expected position or '0', 5 expected number
--       of writes or '0', then for each witness the least 'applied', the least 'lates', the number of that session, a
--       slot or ''
-- Returns the position stored before or '0', the number of writes before, '1' where the owner is right, then the places
-- of the witnesses of which less is stored, from 1 on. A smaller position than the stored one is a write of that.
-- Integers are compared as text: the longer one is the greater.
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end
local found = {'0', '0', '1'}
for place = 1, (#KEYS - 1) / 2 do
  local ledger, parked, at = KEYS[2 * place], KEYS[2 * place + 1], 4 * place + 2
  local now = redis.call('HMGET', ledger, 'applied', 'lates')
  local applied, lates = now[1] or '0', now[2] or '0'
  local left = less(applied, ARGV[at]) or less(lates, ARGV[at + 1])
  if ARGV[at + 3] ~= '' and less(applied, ARGV[at + 2]) and redis.call('HEXISTS', parked, ARGV[at + 3]) == 0 then
    left = true
  end
  if left then
    found[#found + 1] = tostring(place)
  end
end
if ARGV[1] == '' then
  return found
end
local place = ARGV[1]
local stored = redis.call('HMGET', KEYS[1], place, place .. '#', place .. '@')
local now, writes, owner = stored[1] or '0', stored[2] or '0', stored[3]
found[1], found[2] = now, writes
if owner and owner ~= ARGV[2] then
  found[3] = '0'
elseif #found == 3 and not less(now, ARGV[4]) and not less(writes, ARGV[5]) then
  local counted = string.format('%.0f', tonumber(writes) + 1)
  redis.call('HSET', KEYS[1], place, less(now, ARGV[3]) and ARGV[3] or now, place .. '#', counted)
end
return found
