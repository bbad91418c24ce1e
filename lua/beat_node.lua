#!lua flags=allow-oom
-- Records that a node is alive.
-- Guard: the name is free, belongs to this incarnation, or its owner was not seen for
-- `gone_after_ms`.
-- KEYS 1 nodes
-- KEYS 2 node
-- ARGV 1 now
-- ARGV 2 node_name
-- ARGV 3 incarnation
-- ARGV 4 gone_after_ms: the time without a heartbeat after which another incarnation counts as gone
-- ARGV 5 claim_name: take (take the name from an incarnation known to be dead), or ask
-- ARGV* field
-- ARGV* value
-- Reply present: now
-- Reply taken: incarnation, host, pid, boot id, ms since it was last seen
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'hash'})
if bad then return bad end
local holder = redis.call('HMGET', KEYS[2], 'incarnation', 'host', 'pid', 'boot_id')
local seen = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[2]) or 0)
if holder[1] and holder[1] ~= ARGV[3] and ARGV[5] ~= 'take' and now - seen < tonumber(ARGV[4]) then
  return {'taken', holder[1], holder[2] or '', holder[3] or '', holder[4] or '', now - seen}
end
local facts = {'incarnation', ARGV[3]}
for at = 6, #ARGV do facts[#facts + 1] = ARGV[at] end
redis.call('ZADD', KEYS[1], now, ARGV[2])
redis.call('HSET', KEYS[2], unpack(facts))
return {'present', now}
