#!lua flags=allow-oom
-- Gives a node the turn at the consistency check: only one node checks a part of the data at a
-- time.
-- Guard: the last turn began at least `every_ms` ago, or the clock was set back.
-- KEYS 1 consistency_check
-- ARGV 1 now
-- ARGV 2 node
-- ARGV 3 every_ms
-- Reply turn: now, the position from which to continue or '', the findings as JSON or '', when the
--   last full check ended or ''
-- Reply later: the time in ms until the next turn
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'hash'})
if bad then return bad end
local consistency_check = redis.call('HMGET', KEYS[1], 'taken_at', 'place', 'list', 'round_at')
local since = now - whole(consistency_check[1], PARKED)
if consistency_check[1] and since >= 0 and since < tonumber(ARGV[3]) then return {'later', int(tonumber(ARGV[3]) - since)} end
redis.call('HSET', KEYS[1], 'taken_at', int(now), 'node', ARGV[2])
return {'turn', now, consistency_check[2] or '', consistency_check[3] or '', consistency_check[4] or ''}
