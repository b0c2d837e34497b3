-- Reads a ledger, the id of the process that shows it, '' where the login may not ask for that, and the stub of a
-- conversation whose state lies in the cold store, '' where it does not.
-- KEYS: 1 ledger, 2 stub
local info = redis.pcall('INFO', 'server')
local server = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
return {server, redis.call('HGETALL', KEYS[1]), redis.call('GET', KEYS[2]) or ''}
