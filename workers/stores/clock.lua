-- The server's clock, in seconds.
-- KEYS: 1 any key, which chooses the server of a cluster
return redis.call('TIME')[1]
