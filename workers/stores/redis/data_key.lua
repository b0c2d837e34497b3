-- Makes, replaces, touches, wraps anew or destroys a data key atomically; its fields: subject, version, sealed, created,
-- destroyed, why, and synced, which is set outside of this script.
-- KEYS: 1 the key, 2 ids of the keys of its subject by number, 3 the subject's current id, 4 counter of tombstones,
--   5 how many of them there were when the file was written anew; to wrap anew: 1
-- ARGV: 1 'make', 'replace', 'touch', 'rewrap' or 'destroy', 2 id, 3 time; to make: 4 subject, 5 version, 6 sealed;
--   to destroy: 4 reason; to wrap anew: 3 sealed as it was read, 4 version, 5 sealed
-- Returns the id; to wrap anew, whether it was done; to destroy, how many fields of the key were there.
if ARGV[1] == 'rewrap' then
  if redis.call('HGET', KEYS[1], 'sealed') ~= ARGV[3] then -- destroyed meanwhile
    return 0
  end
  redis.call('HSET', KEYS[1], 'version', ARGV[4], 'sealed', ARGV[5])
  return 1
end
if ARGV[1] == 'destroy' then
  local removed = redis.call('HDEL', KEYS[1], 'version', 'sealed')
  if redis.call('HEXISTS', KEYS[1], 'destroyed') == 1 then
    if removed > 0 then -- an older process has wrapped it anew since: the file holds it again
      redis.call('DEL', KEYS[5])
    end
    return removed
  end
  redis.call('HSET', KEYS[1], 'destroyed', ARGV[3], 'why', ARGV[4])
  redis.call('INCR', KEYS[4])
  if redis.call('GET', KEYS[3]) == ARGV[2] then
    redis.call('DEL', KEYS[3])
  end
  return removed
end
if ARGV[1] == 'touch' then -- a write that changes nothing: WAITAOF waits only for those of its connection
  local sealed = redis.call('HGET', KEYS[1], 'sealed')
  if sealed then
    redis.call('HSET', KEYS[1], 'sealed', sealed)
  end
  return ARGV[2]
end
local current = redis.call('GET', KEYS[3])
if ARGV[1] == 'make' and current then
  return current
end
redis.call('HSET', KEYS[1], 'subject', ARGV[4], 'version', ARGV[5], 'sealed', ARGV[6], 'created', ARGV[3])
redis.call('RPUSH', KEYS[2], ARGV[2])
redis.call('SET', KEYS[3], ARGV[2])
return ARGV[2]
