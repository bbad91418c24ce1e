#!lua flags=allow-oom
-- Moves an entry that cannot be understood out of a set, where it would be met again at every poll, to where it is kept.
-- Guard: the entry is still there with the score seen. At most 10,000 are kept: one more is taken out, counted and told.
-- KEYS 1 set: due or leases
-- KEYS 2 quarantine
-- KEYS 3 totals
-- ARGV 1 now
-- ARGV 2 member
-- ARGV 3 score
-- ARGV 4 why
-- Reply quarantined
-- Reply dropped: there is no room; the caller tells it in its log
-- Reply gone
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'hash', KEYS[3], 'hash'})
if bad then return bad end
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not score or score ~= ARGV[3] then return {'gone'} end
if redis.call('HLEN', KEYS[2]) >= QUARANTINE then
  tally(KEYS[3], 'quarantine_dropped', 1)
  redis.call('ZREM', KEYS[1], ARGV[2])
  return {'dropped'}
end
local entry = cjson.encode({key = KEYS[1], score = score, why = ARGV[4], at = int(now)})
-- The same bytes may have stood in another set.
local field = ARGV[2]
if redis.call('HEXISTS', KEYS[2], field) == 1 then field = field .. ' ' .. int(now) .. ' ' .. redis.call('HLEN', KEYS[2]) end
redis.call('HSET', KEYS[2], field, entry)
redis.call('ZREM', KEYS[1], ARGV[2])
return {'quarantined'}
