#!lua flags=allow-oom
-- Pauses a job: its pending regular run leaves the due set and is kept until the job is resumed. A
-- one-shot's run that waits at a gate and has not begun gives up its places and is kept too.
-- Retries and manual runs go on. Group members that wait for this job's turn wait no longer.
-- Guard: the job exists; its pending run is the run that the caller read. A repeated call returns
-- the same reply.
-- KEYS 1 job
-- KEYS 2 jobs
-- KEYS 3 job_due
-- KEYS 4 audit_log
-- KEYS 5 open
-- KEYS 6 run: the open run of a one-shot, as the caller read it; else the job
-- KEYS 7 run_due: of that run's lane
-- KEYS 8 counters
-- KEYS 9 nudge
-- KEYS 10 deadlines
-- KEYS+ gate_timers, then holders, waiters, by_job, by_lane, lanes, state and rules: of each gate
-- ARGV 1 now
-- ARGV 2 job_name
-- ARGV 3 pending: as the caller read it
-- ARGV 4 by: the user who asks for the change, or ''
-- ARGV 5 open_run: of a one-shot, as the caller read it, or ''
-- ARGV 6 gates: the gates that runs of the job have to pass, and the gates of the open run
-- Reply paused
-- Reply already
-- Reply unknown
-- Reply stale
-- Reply places: the gates at which the open run has places; the caller must repeat the call with
--   them
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local k = {job = KEYS[1], counters = KEYS[8], nudge = KEYS[9], deadlines = KEYS[10], gates = gates_of(ARGV[6])}
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'zset', KEYS[3], 'zset', KEYS[4], 'zset', KEYS[5], 'zset', KEYS[6], 'hash',
  KEYS[7], 'zset', k.counters, 'hash', k.deadlines, 'zset'}) or gate_wrong_type(k.gates, gate_names(ARGV[6]))
if bad then return bad end
local job = redis.call('HMGET', KEYS[1], 'rev', 'ended', 'pending', 'paused', 'once')
if not job[1] or job[2] then return {'unknown'} end
if job[4] then return {'already'} end
if (job[3] or '') ~= ARGV[3] then return {'stale'} end
local paused_run, run = ARGV[3], nil
if job[5] == '1' and paused_run == '' then
  local open = redis.call('ZRANGE', KEYS[5], 0, 0)[1] or ''
  if open ~= ARGV[5] then return {'stale'} end
  if open ~= '' then run = redis.call('HMGET', KEYS[6], 'state', 'fence', 'places') end
  if run and (run[1] ~= 'scheduled' or run[2] or not run[3]) then run = nil end
  local gates_bad = run and missing_places(k.gates, run[3])
  if gates_bad then return gates_bad end
  if run then paused_run = open end
end
redis.call('HSET', KEYS[1], 'paused', int(now), 'pending', '')
if paused_run ~= '' then redis.call('HSET', KEYS[1], 'paused_run', paused_run) end
redis.call('ZADD', KEYS[2], PARKED, ARGV[2])
note_change(KEYS[4], now, 'paused', ARGV[4], {})
if ARGV[3] ~= '' then redis.call('ZREM', KEYS[3], ARGV[3]) end
if run then
  leave_gates(k, paused_run, gate_names(run[3]), 'left', now)
  redis.call('ZREM', KEYS[7], paused_run)
  redis.call('ZREM', KEYS[5], paused_run)
  unwatch_behind(k, paused_run)
  redis.call('DEL', KEYS[6])
end
wake_groups(k, gate_names(ARGV[6]), now)
return {'paused'}
