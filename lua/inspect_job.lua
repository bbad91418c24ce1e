#!lua flags=no-writes,allow-oom
-- Reads the indexes and records of one job at one moment.
-- Guard: the job's planned run is the run that the caller read. The script only reads.
-- KEYS 1 job
-- KEYS 2 jobs
-- KEYS 3 finished
-- KEYS 4 job_due: of the job's lane as the caller read it
-- KEYS 5 open
-- KEYS 6 manual
-- KEYS 7 waiting
-- KEYS 8 catch_up
-- KEYS 9 pending_run
-- KEYS 10 backfill
-- KEYS 11 backfills
-- KEYS 12 job_gates
-- KEYS* due: of every lane
-- ARGV 1 job_name
-- ARGV 2 pending: as the caller read it, or ''
-- ARGV 3 gate_entry: the job's entry in the index by first gate, or ''
-- Reply job: rev, ended, paused, score in jobs, score in finished, state of the pending run or '',
--   its score in job_due, the number of due sets that have it, then the numbers of open runs, of
--   manual runs that do not wait for another run, of waiting, spread and backfill runs, score in
--   backfills, score in job_gates; '' for a missing value
-- Reply stale
-- Reply wrong_type: key, found, wanted
local types = {KEYS[1], 'hash', KEYS[2], 'zset', KEYS[3], 'zset', KEYS[4], 'zset', KEYS[5], 'zset', KEYS[6], 'zset', KEYS[7], 'zset',
  KEYS[8], 'zset', KEYS[9], 'hash', KEYS[10], 'zset', KEYS[11], 'zset', KEYS[12], 'zset'}
for at = 13, #KEYS do
  types[#types + 1] = KEYS[at]
  types[#types + 1] = 'zset'
end
local bad = wrong_type(types)
if bad then return bad end
local name, pending = ARGV[1], ARGV[2]
local job = redis.call('HMGET', KEYS[1], 'rev', 'pending', 'ended', 'paused')
if (job[2] or '') ~= pending then return {'stale'} end
local state, own, due_sets = '', '', 0
if pending ~= '' then
  if redis.call('EXISTS', KEYS[9]) == 1 then state = redis.call('HGET', KEYS[9], 'state') or '?' end
  own = redis.call('ZSCORE', KEYS[4], pending) or ''
  for at = 13, #KEYS do
    if redis.call('ZSCORE', KEYS[at], pending) then due_sets = due_sets + 1 end
  end
end
return {'job', job[1] or '', job[3] or '', job[4] or '', redis.call('ZSCORE', KEYS[2], name) or '',
  redis.call('ZSCORE', KEYS[3], name) or '', state, own, due_sets, redis.call('ZCARD', KEYS[5]),
  manual_runs_out({manual = KEYS[6], waiting = KEYS[7]}),
  redis.call('ZCARD', KEYS[7]), redis.call('ZCARD', KEYS[8]), redis.call('ZCARD', KEYS[10]),
  redis.call('ZSCORE', KEYS[11], name) or '', redis.call('ZSCORE', KEYS[12], ARGV[3]) or ''}
