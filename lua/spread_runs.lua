#!lua
-- Gives missed runs of a job ready times of their own, so that they do not start all at once. Also
-- plans the run after them.
-- Each of these runs is then in the due set and in the job's list of spread runs until it is
-- claimed or cancelled.
-- Guard: the first run is the job's pending run and in the due set; the revision and the window are
-- as the caller read them.
-- A run that has a record is not changed. At most 100 runs a call.
-- KEYS 1 job
-- KEYS 2 jobs
-- KEYS 3 job_due
-- KEYS 4 nudge
-- KEYS 5 successor_run
-- KEYS 6 catch_up
-- KEYS* run
-- ARGV 1 now
-- ARGV 2 job_name
-- ARGV 3 rev
-- ARGV 4 lane
-- ARGV 5 window: as the caller read it, or ''
-- ARGV 6 next_window: the rest of the window for the successor and the runs after it, or ''
-- ARGV 7 successor: the id of a run, or ''
-- ARGV 8 successor_due
-- ARGV 9 successor_ready
-- ARGV* id
-- ARGV* due_ms
-- ARGV* ready
-- Reply spread: the number of spread runs
-- Reply gone
-- Reply stale: the job changed; the caller must read the job again
-- Reply occupied: the successor already has a record
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local k = {job = KEYS[1], jobs = KEYS[2], job_due = KEYS[3], nudge = KEYS[4]}
local types = {k.job, 'hash', k.jobs, 'zset', k.job_due, 'zset', KEYS[6], 'zset'}
for at = 7, #KEYS do
  types[#types + 1] = KEYS[at]
  types[#types + 1] = 'hash'
end
local bad = wrong_type(types)
if bad then return bad end
local name, first = ARGV[2], ARGV[10]
local job = redis.call('HMGET', k.job, 'rev', 'pending', 'window')
-- The revision is checked first, because after an edit the planned run may be in another lane.
if job[1] ~= ARGV[3] then return {'stale'} end
if not redis.call('ZSCORE', k.job_due, first) or job[2] ~= first then return {'gone'} end
if (job[3] or '') ~= ARGV[5] then return {'stale'} end
if is_planted_before(ARGV[7], KEYS[5]) then return {'occupied', ARGV[7]} end
local spread = 0
for at = 7, #KEYS do
  local arg = 10 + (at - 7) * 3
  local id, due_ms, ready = ARGV[arg], ARGV[arg + 1], ARGV[arg + 2]
  if id == first or redis.call('EXISTS', KEYS[at]) == 0 then
    redis.call('ZADD', k.job_due, ready, id)
    redis.call('ZADD', KEYS[6], ready, id)
    redis.call('HSET', KEYS[at], 'job', name, 'due', due_ms, 'queue', ARGV[4], 'kind', 'regular', 'rev', job[1],
      'state', 'scheduled', 'ready', ready, 'reason', 'missed', 'planted_at', int(now))
    spread = spread + 1
  end
end
plant_pending(k, name, ARGV[7], ARGV[8], ARGV[9])
redis.call('HSET', k.job, 'window', ARGV[6])
wake_nodes(k.nudge, 'due')
return {'spread', spread}
