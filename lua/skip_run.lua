#!lua flags=allow-oom
-- Skips a planned regular run and the range of occurrences behind it, and plans the job's next run.
-- Guard: the run is the job's pending run and in the due set; the job is at the given revision. If
-- the run has a record, its state is scheduled.
-- Keys: run, job, jobs, job_due, history, job_history, finished, counters, nudge,
--   successor_run:any, open, waiting, notices, deadlines, chains, chain_ends
-- Args: now, id, job_name, due_ms, rev, lane, reason, last_due_ms (the last occurrence of the
--   range), count (the number of occurrences in the range), successor (the id of a run, or ''),
--   successor_due, successor_ready
-- Reply skipped
-- Reply gone
-- Reply over: the run's record has a final or unreadable state; a claim removes the run from the
--   due set
-- Reply stale
-- Reply occupied: the successor already has a record
-- Reply wrong_type: key, found, wanted

local job = redis.call('HMGET', k.job, 'rev', 'pending')
-- The revision is checked first, because after an edit the planned run may be in another lane.
if job[1] ~= rev then return {'stale'} end
if not redis.call('ZSCORE', k.job_due, id) or job[2] ~= id then return {'gone'} end
if (redis.call('HGET', k.run, 'state') or 'scheduled') ~= 'scheduled' then return {'over'} end
if is_planted_before(successor, k.successor_run) then return {'occupied', successor} end
end_run(k, id, 'skipped', reason, now, add_range_fields(k.job, last_due_ms, count,
  {'job', job_name, 'due', due_ms, 'queue', lane, 'kind', 'regular', 'rev', rev}))
if tonumber(count) > 1 then add_to_counter(k.counters, 'skipped', tonumber(count) - 1) end
plant_pending(k, job_name, successor, successor_due, successor_ready)
redis.call('ZREM', k.job_due, id)
end_or_plan_job(k, id, job_name, now)
return {'skipped'}
