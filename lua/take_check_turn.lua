#!lua flags=allow-oom
-- Gives a node the turn at the consistency check: only one node checks a part of the data at a
-- time.
-- Guard: the last turn began at least `every_ms` ago, or the clock was set back.
-- Keys: consistency_check
-- Args: now, node, every_ms
-- Reply turn: now, the position from which to continue or '', the findings as JSON or '', when the
--   last full check ended or ''
-- Reply later: the time in ms until the next turn
-- Reply wrong_type: key, found, wanted

local consistency_check = redis.call('HMGET', k.consistency_check, 'taken_at', 'place', 'list', 'round_at')
local since = now - whole(consistency_check[1], PARKED)
if consistency_check[1] and since >= 0 and since < tonumber(every_ms) then return {'later', int(tonumber(every_ms) - since)} end
redis.call('HSET', k.consistency_check, 'taken_at', int(now), 'node', node)
return {'turn', now, consistency_check[2] or '', consistency_check[3] or '', consistency_check[4] or ''}
