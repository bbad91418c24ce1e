#!lua flags=allow-oom
-- Corrects the number of occurrences in the record of a skipped range, and the last of them.
-- Guard: the record has the values that the caller read.
-- Keys: run (the first run of the range), counters
-- Args: last (as the caller read it), count (as the caller read it), new_last, new_count
-- Reply repaired
-- Reply stale: the record changed
-- Reply wrong_type: key, found, wanted

local record = redis.call('HMGET', k.run, 'state', 'skipped_to', 'skipped_count')
if record[1] ~= 'skipped' or record[2] ~= last or record[3] ~= count then return {'stale'} end
redis.call('HSET', k.run, 'skipped_to', new_last, 'skipped_count', new_count)
add_to_counter(k.counters, 'skipped', tonumber(new_count) - tonumber(count))
return {'repaired'}
