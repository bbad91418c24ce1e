#!lua flags=allow-oom
-- Records that a node is alive.
-- Guard: the name is free, belongs to this incarnation, or its owner was not seen for
-- `gone_after_ms`.
-- Keys: nodes, node
-- Args: now, node_name, incarnation, gone_after_ms (the time without a heartbeat after which
--   another incarnation counts as gone), claim_name (take (take the name from an incarnation known
--   to be dead), or ask)
-- Args of each item: field, value
-- Reply present: now
-- Reply taken: incarnation, host, pid, boot id, ms since it was last seen
-- Reply wrong_type: key, found, wanted

local holder = redis.call('HMGET', k.node, 'incarnation', 'host', 'pid', 'boot_id')
local seen = tonumber(redis.call('ZSCORE', k.nodes, node_name) or 0)
if holder[1] and holder[1] ~= incarnation and claim_name ~= 'take' and now - seen < tonumber(gone_after_ms) then
  return {'taken', holder[1], holder[2] or '', holder[3] or '', holder[4] or '', now - seen}
end
redis.call('ZADD', k.nodes, now, node_name)
redis.call('HSET', k.node, 'incarnation', incarnation, item_args())
return {'present', now}
