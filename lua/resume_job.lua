#!lua flags=allow-oom
-- Resumes a paused job. The occurrences that passed during the pause get one skipped record, and
-- the first occurrence after now is planned.
-- Guard: the revision and the paused run are as the caller read them; a record with a final state
-- is not overwritten.
-- A repeated call replies `already`.
-- Keys: job, jobs, job_due, run (the first of the skipped range, else the paused run), history,
--   job_history, counters, nudge, planted_run:any, audit_log, open, schedule_versions, deadlines,
--   chains, chain_ends
-- Args: now, job_name, rev, paused_run (the id of a run, or ''), first (id of the first run of the
--   skipped range), first_due, last_due (the last occurrence of the skipped range, or '' if nothing
--   was skipped), count, planted (the id of the run to plan, or ''), planted_due, planted_ready, by
--   (the user who asks for the change, or '')
-- Reply resumed
-- Reply already
-- Reply unknown
-- Reply stale
-- Reply occupied: the run to plan already has a record
-- Reply wrong_type: key, found, wanted

local job = redis.call('HMGET', k.job, 'rev', 'ended', 'paused_run', 'paused', 'queue', 'delay')
if not job[1] or job[2] then return {'unknown'} end
if not job[4] then return {'already'} end
if job[1] ~= rev or (job[3] or '') ~= paused_run then return {'stale'} end
if is_planted_before(planted, k.planted_run) then return {'occupied', planted} end
local is_range = paused_run ~= '' and last_due ~= ''
if is_range and (redis.call('HGET', k.run, 'state') or 'scheduled') == 'scheduled' then
  end_run(k, first, 'skipped', 'paused', now, add_range_fields(k.job, last_due, count,
    {'job', job_name, 'due', first_due, 'queue', job[5] or '', 'kind', 'regular', 'rev', job[1]}))
  if tonumber(count) > 1 then add_to_counter(k.counters, 'skipped', tonumber(count) - 1) end
end
-- For a job with a delay, the end of an open run plans the next run.
local has_own_end = (job[6] or '') ~= '' and redis.call('ZCARD', k.open) > 0
plant_pending(k, job_name, has_own_end and '' or planted, planted_due, planted_ready)
-- The schedule covers all occurrences after `since`, and also a planned run that was computed from
-- an earlier reading of the clock.
local since = planted ~= '' and math.min(now, tonumber(planted_due) - 1) or now
note_schedule_version(k.schedule_versions, k.job, since, now)
redis.call('HSET', k.job, 'since', int(since))
note_change(k.audit_log, now, 'resumed', by, {})
redis.call('HDEL', k.job, 'paused', 'paused_run')
if job[3] and job[3] ~= planted then unwatch_planned(k, job[3]) end
return {'resumed'}
