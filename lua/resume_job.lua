#!lua flags=allow-oom
-- Resumes a paused job. The occurrences that passed during the pause get one skipped record, and
-- the first occurrence after now is planned.
-- Guard: the revision and the paused run are as the caller read them; a record with a final state
-- is not overwritten.
-- A repeated call replies `already`.
-- KEYS 1 job
-- KEYS 2 jobs
-- KEYS 3 job_due
-- KEYS 4 run: the first of the skipped range, else the paused run
-- KEYS 5 history
-- KEYS 6 job_history
-- KEYS 7 counters
-- KEYS 8 nudge
-- KEYS 9 planted_run
-- KEYS 10 audit_log
-- KEYS 11 open
-- KEYS 12 schedule_versions
-- KEYS 13 deadlines
-- ARGV 1 now
-- ARGV 2 job_name
-- ARGV 3 rev
-- ARGV 4 paused_run: the id of a run, or ''
-- ARGV 5 first: id of the first run of the skipped range
-- ARGV 6 first_due
-- ARGV 7 last_due: the last occurrence of the skipped range, or '' if nothing was skipped
-- ARGV 8 count
-- ARGV 9 planted: the id of the run to plan, or ''
-- ARGV 10 planted_due
-- ARGV 11 planted_ready
-- ARGV 12 by: the user who asks for the change, or ''
-- Reply resumed
-- Reply already
-- Reply unknown
-- Reply stale
-- Reply occupied: the run to plan already has a record
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local k = {job = KEYS[1], jobs = KEYS[2], job_due = KEYS[3], run = KEYS[4], history = KEYS[5], job_history = KEYS[6],
  counters = KEYS[7], nudge = KEYS[8], deadlines = KEYS[13]}
local bad = wrong_type({k.job, 'hash', k.jobs, 'zset', k.job_due, 'zset', k.run, 'hash', k.history, 'zset', k.job_history, 'zset',
  k.counters, 'hash', KEYS[10], 'zset', KEYS[11], 'zset', KEYS[12], 'zset', k.deadlines, 'zset'})
if bad then return bad end
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'paused_run', 'paused', 'queue', 'delay')
if not job[1] or job[2] then return {'unknown'} end
if not job[4] then return {'already'} end
if job[1] ~= ARGV[3] or (job[3] or '') ~= ARGV[4] then return {'stale'} end
if is_planted_before(ARGV[9], KEYS[9]) then return {'occupied', ARGV[9]} end
local is_range = ARGV[4] ~= '' and ARGV[7] ~= ''
if is_range and (redis.call('HGET', k.run, 'state') or 'scheduled') == 'scheduled' then
  end_run(k, ARGV[5], 'skipped', 'paused', now, add_range_fields(k.job, ARGV[7], ARGV[8],
    {'job', ARGV[2], 'due', ARGV[6], 'queue', job[5] or '', 'kind', 'regular', 'rev', job[1]}))
  if tonumber(ARGV[8]) > 1 then add_to_counter(k.counters, 'skipped', tonumber(ARGV[8]) - 1) end
end
-- For a job with a delay, the end of an open run plans the next run.
local has_own_end = (job[6] or '') ~= '' and redis.call('ZCARD', KEYS[11]) > 0
plant_pending(k, ARGV[2], has_own_end and '' or ARGV[9], ARGV[10], ARGV[11])
-- The schedule covers all occurrences after `since`, and also a planned run that was computed from
-- an earlier reading of the clock.
local since = ARGV[9] ~= '' and math.min(now, tonumber(ARGV[10]) - 1) or now
note_schedule_version(KEYS[12], k.job, since, now)
redis.call('HSET', k.job, 'since', int(since))
note_change(KEYS[10], now, 'resumed', ARGV[12], {})
redis.call('HDEL', k.job, 'paused', 'paused_run')
if job[3] and job[3] ~= ARGV[9] then unwatch_planned(k, job[3]) end
return {'resumed'}
