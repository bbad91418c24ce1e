#!lua
-- Gives a dead letter a new retry budget. The run becomes ready now, or waits for an open run of
-- its job. Redis itself refuses this script when memory is full, because the script adds a run.
-- Guard: the run is failed, timed_out or lost, and its last fence is as the caller read it. Its job
-- is live or a finished one-shot, at the revision that the caller read, and its definition fits the
-- run.
-- A repeated call replies `already`, because the run has another state or another fence.
-- KEYS 1 run
-- KEYS 2 job
-- KEYS 3 job_due
-- KEYS 4 open
-- KEYS 5 waiting
-- KEYS 6 history
-- KEYS 7 job_history
-- KEYS 8 dead
-- KEYS 9 job_dead
-- KEYS 10 finished
-- KEYS 11 counters
-- KEYS 12 nudge
-- KEYS 13 audit_log
-- KEYS 14 deadlines
-- KEYS 15 manual
-- ARGV 1 now
-- ARGV 2 id
-- ARGV 3 job_name
-- ARGV 4 due_ms
-- ARGV 5 kind: regular or manual
-- ARGV 6 fence: of the last attempt, as the caller read it
-- ARGV 7 rev: of the job, or ''
-- ARGV 8 lane: of the job
-- ARGV 9 overlap: allow, or wait
-- ARGV 10 past: the last attempt's record as JSON
-- ARGV 11 by: the user who asks for the change, or ''
-- Reply retried
-- Reply waiting: the run waits for an open run of its job
-- Reply already: state; the run was already retried
-- Reply over: state, finished_at; the run is not a dead letter
-- Reply unknown
-- Reply gone: how its job ended, or ''
-- Reply former: the run belongs to an earlier job of this name
-- Reply stale: the job changed; the caller must read the job again
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local k = {run = KEYS[1], job = KEYS[2], job_due = KEYS[3], open = KEYS[4], waiting = KEYS[5], history = KEYS[6],
  job_history = KEYS[7], dead = KEYS[8], job_dead = KEYS[9], finished = KEYS[10], counters = KEYS[11], nudge = KEYS[12]}
local bad = wrong_type({k.run, 'hash', k.job, 'hash', k.job_due, 'zset', k.open, 'zset', k.waiting, 'zset', k.history, 'zset',
  k.job_history, 'zset', k.dead, 'zset', k.job_dead, 'zset', k.finished, 'zset', k.counters, 'hash',
  KEYS[13], 'zset', KEYS[14], 'zset', KEYS[15], 'zset'})
if bad then return bad end
local id = ARGV[2]
local run = redis.call('HMGET', k.run, 'state', 'fence', 'attempt', 'finished_at', 'rev')
if not run[1] then return {'unknown'} end
if run[1] == 'scheduled' or run[1] == 'running' then return {'already', run[1]} end
if not DEAD[run[1]] then return {'over', run[1], run[4] or ''} end
if (run[2] or '') ~= ARGV[6] then return {'already', run[1]} end
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'notify', 'same_since')
if not job[1] or job[2] and job[2] ~= 'finished' then return {'gone', job[2] or ''} end
if job[1] ~= ARGV[7] then return {'stale'} end
if is_former(run[5], job[4]) then return {'former'} end

-- The job counts as ended now, so that its definition is kept until the run ends.
if job[2] then redis.call('ZADD', k.finished, now, ARGV[3]) end
local waits = ARGV[9] == 'wait' and redis.call('ZCARD', k.open) > 0
if is_manual(id) then redis.call('ZADD', KEYS[15], ARGV[4], id) end
if waits then
  redis.call('ZADD', k.waiting, ARGV[4], id)
  add_to_counter(k.counters, 'waiting', 1)
else
  if ARGV[5] == 'regular' then redis.call('ZADD', k.open, ARGV[4], id) end
  redis.call('ZADD', k.job_due, now, id)
end
-- The deadline for the end still applies. A deadline that has passed does not apply to a run that
-- an operator asks for.
local within = ARGV[5] == 'regular' and tonumber(string.match(job[3] or '', 'finish=(%d+)'))
if within and tonumber(ARGV[4]) + within > now then
  redis.call('ZADD', KEYS[14], int(tonumber(ARGV[4]) + within), id .. ' finish')
end
local attempt = whole(run[3], COUNT)
if redis.call('HEXISTS', k.run, 'past:' .. attempt) == 0 then keep_past(k.run, attempt, ARGV[10]) end
redis.call('HSET', k.run, 'state', 'scheduled', 'queue', ARGV[8], 'ready', int(now), 'reason', '', 'failures', 0, 'recoveries', 0,
  'unclear', 0, 'retried_at', int(now))
redis.call('HDEL', k.run, 'finished_at')
redis.call('ZREM', k.dead, id)
redis.call('ZREM', k.job_dead, id)
redis.call('ZREM', k.history, id)
redis.call('ZREM', k.job_history, id)
add_to_counter(k.counters, 'retried', 1)
note_change(KEYS[13], now, 'run retried', ARGV[11], {run = id})
if waits then return {'waiting'} end
nudge_if_head(k.nudge, k.job_due, id)
return {'retried'}
