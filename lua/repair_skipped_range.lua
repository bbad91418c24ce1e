#!lua flags=allow-oom
-- Corrects the number of occurrences in the record of a skipped range, and the last of them.
-- Guard: the record has the values that the caller read.
-- KEYS 1 run: the first run of the range
-- KEYS 2 counters
-- ARGV 1 last: as the caller read it
-- ARGV 2 count: as the caller read it
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
