#!lua flags=allow-oom
-- Drops the waiting backfill runs of a job. A backfill run that was already planned is not changed.
-- Guard: none; without waiting runs nothing changes.
-- Keys: backfill, backfills, audit_log
-- Args: now, job_name, by (the user who asks for it, or '')
-- Reply dropped: the number of dropped occurrences
-- Reply wrong_type: key, found, wanted

local count = redis.call('ZCARD', k.backfill)
if count > 0 then
  -- The audit log keeps only the number and range of the occurrences, because each occurrence
  -- already has a record.
  local first = tonumber(redis.call('ZRANGE', k.backfill, 0, 0, 'WITHSCORES')[2])
  local last = tonumber(redis.call('ZRANGE', k.backfill, -1, -1, 'WITHSCORES')[2])
  note_change(k.audit_log, now, 'backfill given up', by, {count = count, first = first, last = last})
end
redis.call('ZREM', k.backfills, job_name)
redis.call('UNLINK', k.backfill)
return {'dropped', count}
