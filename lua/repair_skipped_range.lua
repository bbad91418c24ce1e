#!lua flags=allow-oom
-- Corrects how many occurrences the record of a skipped range stands for, and the last of them.
-- Guard: the record has the values that the caller read.
-- KEYS 1 run: the first of the range
-- KEYS 2 counters
-- ARGV 1 last: as read
-- ARGV 2 count: as read
-- ARGV 3 new_last
-- ARGV 4 new_count
-- Reply repaired
-- Reply stale: the record changed
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'hash'})
if bad then return bad end
local record = redis.call('HMGET', KEYS[1], 'state', 'skipped_to', 'skipped_count')
if record[1] ~= 'skipped' or record[2] ~= ARGV[1] or record[3] ~= ARGV[2] then return {'stale'} end
redis.call('HSET', KEYS[1], 'skipped_to', ARGV[3], 'skipped_count', ARGV[4])
add_to_counter(KEYS[2], 'skipped', tonumber(ARGV[4]) - tonumber(ARGV[2]))
return {'repaired'}
