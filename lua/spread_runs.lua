#!lua
-- Gives missed runs of a job ready times of their own, so that they do not start all at once. Also
-- plans the run after them.
-- Each of these runs is then in the due set and in the job's list of spread runs until it is
-- claimed or cancelled.
-- Guard: the first run is the job's pending run and in the due set; the revision and the window are
-- as the caller read them.
-- A run that has a record is not changed. At most 100 runs a call.
-- Keys: job, jobs, job_due, nudge, successor_run:any, catch_up
-- Keys of each item: run
-- Args: now, job_name, rev, lane, window (as the caller read it, or ''), next_window (the rest of
--   the window for the successor and the runs after it, or ''), successor (the id of a run, or ''),
--   successor_due, successor_ready
-- Args of each item: id, due_ms, ready
-- Reply spread: the number of spread runs
-- Reply gone
-- Reply stale: the job changed; the caller must read the job again
-- Reply occupied: the successor already has a record
-- Reply wrong_type: key, found, wanted

for at = 1, item_count do
  local bad = wrong_item_type(at)
  if bad then return bad end
end
local name, first = job_name, item(1).id
local job = redis.call('HMGET', k.job, 'rev', 'pending', 'window')
-- The revision is checked first, because after an edit the planned run may be in another lane.
if job[1] ~= rev then return {'stale'} end
if not redis.call('ZSCORE', k.job_due, first) or job[2] ~= first then return {'gone'} end
if (job[3] or '') ~= window then return {'stale'} end
if is_planted_before(successor, k.successor_run) then return {'occupied', successor} end
local spread = 0
for at = 1, item_count do
  local k = item(at)
  local id, due_ms, ready = k.id, k.due_ms, k.ready
  if id == first or redis.call('EXISTS', k.run) == 0 then
    redis.call('ZADD', k.job_due, ready, id)
    redis.call('ZADD', k.catch_up, ready, id)
    redis.call('HSET', k.run, 'job', name, 'due', due_ms, 'queue', lane, 'kind', 'regular', 'rev', job[1],
      'state', 'scheduled', 'ready', ready, 'reason', 'missed', 'planted_at', int(now))
    spread = spread + 1
  end
end
plant_pending(k, name, successor, successor_due, successor_ready)
redis.call('HSET', k.job, 'window', next_window)
wake_nodes(k.nudge, 'due', k.job_due)
return {'spread', spread}
