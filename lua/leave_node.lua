#!lua flags=allow-oom
-- Removes a node that stops in order from the list of nodes.
-- Guard: the name still belongs to this incarnation.
-- KEYS 1 nodes
-- KEYS 2 node
-- ARGV 1 node_name
-- ARGV 2 incarnation
-- Reply left
-- Reply another
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'hash'})
if bad then return bad end
if redis.call('HGET', KEYS[2], 'incarnation') ~= ARGV[2] then return {'another'} end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('DEL', KEYS[2])
return {'left'}
