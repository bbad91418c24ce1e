#!lua flags=allow-oom
-- Deletes nodes that were not seen for a long time and whose files declare nothing.
-- Guard: the node was last seen before the given time, and its file lists no job, queue or group.
-- At most 100 nodes a call.
-- Keys: nodes
-- Keys of each item: node, source, declared
-- Args: before
-- Args of each item: node_name
-- Reply forgotten: the number of deleted nodes
-- Reply wrong_type: key, found, wanted

local forgotten = 0
for at = 1, item_count do
  local k = item(at)
  local seen = redis.call('ZSCORE', k.nodes, k.node_name)
  if seen and tonumber(seen) < tonumber(before) and redis.call('EXISTS', k.source, k.declared) == 0 then
    if redis.call('TYPE', k.node).ok == 'hash' then redis.call('DEL', k.node) end
    redis.call('ZREM', k.nodes, k.node_name)
    forgotten = forgotten + 1
  end
end
return {'forgotten', forgotten}
