#!lua flags=allow-oom
-- Records node events: started, stopped, Redis out of reach, slots taken.
-- Guard: none; an event recorded twice is stored once.
-- The newest 1,000 events of a node are kept for 30 days after its last event.
-- KEYS 1 events
-- KEYS 2 event_nodes
-- ARGV 1 now
-- ARGV 2 node_name
-- ARGV* at: when the event began
-- ARGV* event: JSON
-- ARGV* replaced: the event as it was recorded when it began, or ''
-- Reply noted
-- Reply wrong_type: key, found, wanted
local MOST, NODES, KEPT = 1000, 1000, 30 * 24 * 3600 * 1000
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'zset'})
if bad then return bad end
for at = 3, #ARGV, 3 do
  redis.call('ZADD', KEYS[1], ARGV[at], ARGV[at + 1])
  if ARGV[at + 2] ~= '' and ARGV[at + 2] ~= ARGV[at + 1] then redis.call('ZREM', KEYS[1], ARGV[at + 2]) end
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -MOST - 1)
redis.call('PEXPIRE', KEYS[1], KEPT)
redis.call('ZADD', KEYS[2], now, ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', int(now - KEPT))
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -NODES - 1)
return {'noted'}
