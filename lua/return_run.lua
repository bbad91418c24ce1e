#!lua flags=allow-oom
-- Makes a run due again that was running when Redis lost all data about it. The node of the run has
-- stopped the run.
-- Guard: the data has another epoch than at the run's claim, and has the run's job but no record of
-- the run.
-- Keys: run, job, due (of the run's lane), open, epoch, nudge, jobs, running (in the run's queue),
--   queue (its settings), manual, deadlines
-- Args: now, claimed_in (the epoch in which the run was claimed), id, job_name, due_ms, lane,
--   attempt, fence, reason
-- Reply returned
-- Reply same: the data has the epoch of the claim, or no epoch yet
-- Reply known: Redis has a record of the run, or the run is planned
-- Reply unknown: the job does not exist
-- Reply wrong_type: key, found, wanted

local epoch = redis.call('GET', k.epoch)
if redis.call('EXISTS', k.run) == 1 or redis.call('ZSCORE', k.due, id) then return {'known'} end
if not epoch or epoch == claimed_in then return {'same'} end
local job = redis.call('HMGET', k.job, 'rev', 'ended', 'delay', 'pending', 'queue')
if not job[1] or job[2] then return {'unknown'} end
local is_by_hand = is_manual(id)
redis.call('HSET', k.run, 'job', job_name, 'due', due_ms, 'queue', lane, 'kind', is_by_hand and 'manual' or 'regular', 'state',
  'scheduled', 'ready', int(now), 'attempt', attempt, 'fence', fence, 'reason', reason)
redis.call('ZADD', k.due, now, id)
redis.call('ZADD', is_by_hand and k.manual or k.open, due_ms, id)
-- The end of the run plans the next run of a job with a delay, so a run planned since the loss is
-- removed.
if not is_by_hand and (job[3] or '') ~= '' and (job[4] or '') ~= '' and job[5] == lane then
  redis.call('ZREM', k.due, job[4])
  plant_pending({job = k.job, jobs = k.jobs}, job_name, '')
  unwatch_planned({job = k.job, deadlines = k.deadlines}, job[4])
end
leave_queue({running = k.running, queue = k.queue, nudge = k.nudge}, id)
nudge_if_head(k.nudge, k.due, id)
return {'returned'}
