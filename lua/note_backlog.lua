#!lua flags=allow-oom
-- Records that a queue has a backlog, or that its backlog is over. All nodes that see one backlog
-- get the same time of its beginning.
-- Nodes renew the record while the backlog lasts. A record that no node renewed for `forgotten_ms`
-- belongs to an earlier backlog.
-- Guard: a record of a later backlog is not ended. A repeated call changes nothing more.
-- Keys: queue_state
-- Args: now, since (the beginning of the backlog that is over, or '' if the queue has a backlog),
--   forgotten_ms
-- Reply begun: the time of the beginning, which is now
-- Reply goes_on: the time of the beginning
-- Reply over
-- Reply wrong_type: key, found, wanted

local known = redis.call('HMGET', k.queue_state, 'backlog_since', 'backlog_seen')
if since ~= '' then
  if known[1] == since then redis.call('HDEL', k.queue_state, 'backlog_since', 'backlog_seen') end
  return {'over'}
end
local is_known = known[1] and now - whole(known[2], PARKED) < tonumber(forgotten_ms)
local begun = is_known and known[1] or int(now)
redis.call('HSET', k.queue_state, 'backlog_since', begun, 'backlog_seen', int(now))
return {is_known and 'goes_on' or 'begun', begun}
