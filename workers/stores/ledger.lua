-- Reads a ledger, and the id of the process that shows it, '' where the login may not ask for that.
-- KEYS: 1 ledger
local info = redis.pcall('INFO', 'server')
local server = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or ''
return {server, redis.call('HGETALL', KEYS[1])}
