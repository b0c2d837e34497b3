-- Takes, keeps or gives back a lease. KEYS[1]: the lease; ARGV: the owner, milliseconds (0 gives it back).
-- Returns 1 where the owner has it afterwards, else 0.
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then
  return 0
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
