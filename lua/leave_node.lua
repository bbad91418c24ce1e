#!lua flags=allow-oom
-- Removes a node that stops in order from the list of nodes. A node with instances of jobs stays in
-- the list as stopped, because its jobs wait for it.
-- Guard: the name still belongs to this incarnation.
-- Keys: nodes, node, source (the list of the instances on the node)
-- Args: now, node_name, incarnation, gone_after_ms (the time without a heartbeat after which a node
--   counts as gone)
-- Reply left
-- Reply another
-- Reply wrong_type: key, found, wanted

if redis.call('HGET', k.node, 'incarnation') ~= incarnation then return {'another'} end
if redis.call('EXISTS', k.source) == 1 then
  redis.call('ZADD', k.nodes, int(now - tonumber(gone_after_ms) - 1), node_name)
  redis.call('HSET', k.node, 'state', 'stopped', 'running', 0, 'config_error', '')
  return {'left'}
end
redis.call('ZREM', k.nodes, node_name)
redis.call('DEL', k.node)
return {'left'}
