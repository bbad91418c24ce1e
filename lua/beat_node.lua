#!lua flags=allow-oom
-- Writes down that a node is there, and reads the mark that tells whether this is still the same data.
-- Guard: the name is free, this incarnation's own, or held by one not seen for as long as the caller says.
-- KEYS 1 nodes
-- KEYS 2 node
-- KEYS 3 epoch
-- ARGV 1 now
-- ARGV 2 node_name
-- ARGV 3 incarnation
-- ARGV 4 new_epoch: written if there is none
-- ARGV 5 gone_after_ms: another incarnation unseen for so long has left
-- ARGV 6 claim_name: take, from an incarnation known to be dead; else ask
-- ARGV* field
-- ARGV* value
-- Reply present: now, epoch
-- Reply taken: incarnation, host, pid, boot id, ms since it was last seen
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'hash', KEYS[3], 'string'})
if bad then return bad end
local held = redis.call('HMGET', KEYS[2], 'incarnation', 'host', 'pid', 'boot_id')
local seen = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[2]) or 0)
if held[1] and held[1] ~= ARGV[3] and ARGV[6] ~= 'take' and now - seen < tonumber(ARGV[5]) then
  return {'taken', held[1], held[2] or '', held[3] or '', held[4] or '', now - seen}
end
local facts = {'incarnation', ARGV[3]}
for at = 7, #ARGV do facts[#facts + 1] = ARGV[at] end
redis.call('ZADD', KEYS[1], now, ARGV[2])
redis.call('HSET', KEYS[2], unpack(facts))
redis.call('SET', KEYS[3], ARGV[4], 'NX')
return {'present', now, redis.call('GET', KEYS[3])}
