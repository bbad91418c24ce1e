#!lua flags=allow-oom
-- Skips a planned regular run and the range of occurrences behind it, and plans the job's next run.
-- Guard: the run is the job's pending run and in the due set; the job is at the given revision. If
-- the run has a record, its state is scheduled.
-- KEYS 1 run
-- KEYS 2 job
-- KEYS 3 jobs
-- KEYS 4 job_due
-- KEYS 5 history
-- KEYS 6 job_history
-- KEYS 7 finished
-- KEYS 8 counters
-- KEYS 9 nudge
-- KEYS 10 successor_run
-- KEYS 11 open
-- KEYS 12 waiting
-- KEYS 13 notices
-- KEYS 14 deadlines
-- ARGV 1 now
-- ARGV 2 id
-- ARGV 3 job_name
-- ARGV 4 due_ms
-- ARGV 5 rev
-- ARGV 6 lane
-- ARGV 7 reason
-- ARGV 8 last_due_ms: the last occurrence of the range
-- ARGV 9 count: the number of occurrences in the range
-- ARGV 10 successor: the id of a run, or ''
-- ARGV 11 successor_due
-- ARGV 12 successor_ready
-- Reply skipped
-- Reply gone
-- Reply over: the run's record has a final or unreadable state; a claim removes the run from the
--   due set
-- Reply stale
-- Reply occupied: the successor already has a record
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local k = {run = KEYS[1], job = KEYS[2], jobs = KEYS[3], job_due = KEYS[4], history = KEYS[5], job_history = KEYS[6],
  finished = KEYS[7], counters = KEYS[8], nudge = KEYS[9], open = KEYS[11], waiting = KEYS[12], notices = KEYS[13],
  deadlines = KEYS[14]}
local bad = wrong_type({k.run, 'hash', k.job, 'hash', k.jobs, 'zset', k.job_due, 'zset', k.history, 'zset', k.job_history, 'zset',
  k.finished, 'zset', k.counters, 'hash', k.open, 'zset', k.waiting, 'zset', k.notices, 'zset',
  k.deadlines, 'zset'})
if bad then return bad end
local id, count = ARGV[2], tonumber(ARGV[9])
local job = redis.call('HMGET', k.job, 'rev', 'pending')
-- The revision is checked first, because after an edit the planned run may be in another lane.
if job[1] ~= ARGV[5] then return {'stale'} end
if not redis.call('ZSCORE', k.job_due, id) or job[2] ~= id then return {'gone'} end
if (redis.call('HGET', k.run, 'state') or 'scheduled') ~= 'scheduled' then return {'over'} end
if is_planted_before(ARGV[10], KEYS[10]) then return {'occupied', ARGV[10]} end
end_run(k, id, 'skipped', ARGV[7], now, add_range_fields(k.job, ARGV[8], ARGV[9],
  {'job', ARGV[3], 'due', ARGV[4], 'queue', ARGV[6], 'kind', 'regular', 'rev', ARGV[5]}))
if count > 1 then add_to_counter(k.counters, 'skipped', count - 1) end
plant_pending(k, ARGV[3], ARGV[10], ARGV[11], ARGV[12])
redis.call('ZREM', k.job_due, id)
end_or_plan_job(k, id, ARGV[3], now)
return {'skipped'}
