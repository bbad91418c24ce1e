#!lua flags=allow-oom
-- Records node events: started, stopped, Redis out of reach, slots taken.
-- Guard: none; an event recorded twice is stored once.
-- The newest 1,000 events of a node are kept for 30 days after its last event.
-- Keys: events, event_nodes
-- Args: now, node_name
-- Args of each item: at (when the event began), event (JSON), replaced (the event as it was
--   recorded when it began, or '')
-- Reply noted
-- Reply wrong_type: key, found, wanted

local MOST, NODES, KEPT = 1000, 1000, 30 * 24 * 3600 * 1000
for at = 1, item_count do
  local k = item(at)
  redis.call('ZADD', k.events, k.at, k.event)
  if k.replaced ~= '' and k.replaced ~= k.event then redis.call('ZREM', k.events, k.replaced) end
end
redis.call('ZREMRANGEBYRANK', k.events, 0, -MOST - 1)
redis.call('PEXPIRE', k.events, KEPT)
redis.call('ZADD', k.event_nodes, now, node_name)
redis.call('ZREMRANGEBYSCORE', k.event_nodes, '-inf', int(now - KEPT))
redis.call('ZREMRANGEBYRANK', k.event_nodes, 0, -NODES - 1)
return {'noted'}
