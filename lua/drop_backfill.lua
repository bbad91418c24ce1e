#!lua flags=allow-oom
-- Drops the waiting backfill runs of a job. A backfill run that was already planned is not changed.
-- Guard: none; without waiting runs nothing changes.
-- KEYS 1 backfill
-- KEYS 2 backfills
-- KEYS 3 audit_log
-- ARGV 1 now
-- ARGV 2 job_name
-- ARGV 3 by: the user who asks for it, or ''
-- Reply dropped: the number of dropped occurrences
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'zset', KEYS[3], 'zset'})
if bad then return bad end
local count = redis.call('ZCARD', KEYS[1])
if count > 0 then
  -- The audit log keeps only the number and range of the occurrences, because each occurrence
  -- already has a record.
  local first = tonumber(redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
  local last = tonumber(redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2])
  note_change(KEYS[3], now, 'backfill given up', ARGV[3], {count = count, first = first, last = last})
end
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('UNLINK', KEYS[1])
return {'dropped', count}
