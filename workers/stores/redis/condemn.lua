-- Notes in a conversation's stub that its snapshot is lost, unless the conversation was brought back meanwhile.
-- KEYS: 1 stub
-- ARGV: 1 expected text of the stub, 2 its text from now on
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
end
return 1
