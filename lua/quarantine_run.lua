#!lua flags=allow-oom
-- Moves an entry that cannot be understood out of a set, where it would be met again at every poll, to where it is kept.
-- Guard: the entry is still there with the score seen.
-- KEYS 1 set: due or leases
-- KEYS 2 quarantine
-- ARGV 1 now
-- ARGV 2 member
-- ARGV 3 score
-- ARGV 4 why
-- Reply quarantined
-- Reply gone
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'hash'})
if bad then return bad end
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not score or score ~= ARGV[3] then return {'gone'} end
local entry = cjson.encode({key = KEYS[1], score = score, why = ARGV[4], at = int(now)})
redis.call('HSET', KEYS[2], ARGV[2], entry)
redis.call('ZREM', KEYS[1], ARGV[2])
return {'quarantined'}
