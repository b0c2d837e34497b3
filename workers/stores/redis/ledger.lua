-- Reads a ledger and the id of the process that shows it, '' where the login may not ask for that. Where there is no
-- ledger, also the stub of a conversation whose state lies in the cold store, '' where it does not, and the token of its
-- last return from there; a ledger that returned has that token itself.
-- KEYS: 1 ledger, 2 stub, 3 ledger of intake
local info = redis.pcall('INFO', 'server')
local server = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
local fields = redis.call('HGETALL', KEYS[1])
if #fields > 0 then
  return {server, fields, '', ''}
end
return {server, fields, redis.call('GET', KEYS[2]) or '', redis.call('HGET', KEYS[3], 'thawed') or ''}
