#!lua flags=allow-oom
-- Removes a node that stops in order from the list of nodes.
-- Guard: the name still belongs to this incarnation.
-- Keys: nodes, node
-- Args: node_name, incarnation
-- Reply left
-- Reply another
-- Reply wrong_type: key, found, wanted

if redis.call('HGET', k.node, 'incarnation') ~= incarnation then return {'another'} end
redis.call('ZREM', k.nodes, node_name)
redis.call('DEL', k.node)
return {'left'}
