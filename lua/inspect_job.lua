#!lua flags=no-writes,allow-oom
-- Reads the indexes and records of one job at one moment.
-- Guard: the job's planned run is the run that the caller read. The script only reads.
-- Keys: job, jobs, finished, job_due (of the job's lane as the caller read it), open, manual,
--   waiting, catch_up, pending_run, backfill, backfills, job_gates
-- Keys of each item: due (of every lane)
-- Args: job_name, pending (as the caller read it, or ''), gate_entry (the job's entry in the index
--   by first gate, or '')
-- Reply job: rev, ended, paused, score in jobs, score in finished, state of the pending run or '',
--   its score in job_due, the number of due sets that have it, then the numbers of open runs, of
--   manual runs that do not wait for another run, of waiting, spread and backfill runs, score in
--   backfills, score in job_gates; '' for a missing value
-- Reply stale
-- Reply wrong_type: key, found, wanted

for at = 1, item_count do
  local bad = wrong_item_type(at)
  if bad then return bad end
end
local name = job_name
local job = redis.call('HMGET', k.job, 'rev', 'pending', 'ended', 'paused')
if (job[2] or '') ~= pending then return {'stale'} end
local state, own, due_sets = '', '', 0
if pending ~= '' then
  if redis.call('EXISTS', k.pending_run) == 1 then state = redis.call('HGET', k.pending_run, 'state') or '?' end
  own = redis.call('ZSCORE', k.job_due, pending) or ''
  for at = 1, item_count do
    if redis.call('ZSCORE', item(at).due, pending) then due_sets = due_sets + 1 end
  end
end
return {'job', job[1] or '', job[3] or '', job[4] or '', redis.call('ZSCORE', k.jobs, name) or '',
  redis.call('ZSCORE', k.finished, name) or '', state, own, due_sets, redis.call('ZCARD', k.open),
  manual_runs_out(k),
  redis.call('ZCARD', k.waiting), redis.call('ZCARD', k.catch_up), redis.call('ZCARD', k.backfill),
  redis.call('ZSCORE', k.backfills, name) or '', redis.call('ZSCORE', k.job_gates, gate_entry) or ''}
