#!lua flags=allow-oom
-- Writes down that lanes are in use, so that nodes look there; wakes them if one is new.
-- Guard: none; a lane noted twice is one.
-- KEYS 1 lanes
-- KEYS 2 nudge
-- ARGV 1 now
-- ARGV* lane: none of a queue's plain lanes
-- Reply noted
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset'})
if bad then return bad end
for at = 2, #ARGV do note_lane(KEYS[1], KEYS[2], ARGV[at], now) end
return {'noted'}
