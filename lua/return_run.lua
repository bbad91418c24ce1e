#!lua flags=allow-oom
-- Makes a run due again that was running when Redis lost all data about it. The node of the run has
-- stopped the run.
-- Guard: the data has another epoch than at the run's claim, and has the run's job but no record of
-- the run.
-- KEYS 1 run
-- KEYS 2 job
-- KEYS 3 due: of the run's lane
-- KEYS 4 open
-- KEYS 5 epoch
-- KEYS 6 nudge
-- KEYS 7 jobs
-- KEYS 8 running: in the run's queue
-- KEYS 9 queue: its settings
-- KEYS 10 manual
-- KEYS 11 deadlines
-- ARGV 1 now
-- ARGV 2 claimed_in: the epoch in which the run was claimed
-- ARGV 3 id
-- ARGV 4 job_name
-- ARGV 5 due_ms
-- ARGV 6 lane
-- ARGV 7 attempt
-- ARGV 8 fence
-- ARGV 9 reason
-- Reply returned
-- Reply same: the data has the epoch of the claim, or no epoch yet
-- Reply known: Redis has a record of the run, or the run is planned
-- Reply unknown: the job does not exist
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'hash', KEYS[3], 'zset', KEYS[4], 'zset', KEYS[5], 'string', KEYS[7], 'zset',
  KEYS[8], 'zset', KEYS[9], 'hash', KEYS[10], 'zset', KEYS[11], 'zset'})
if bad then return bad end
local epoch, id = redis.call('GET', KEYS[5]), ARGV[3]
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('ZSCORE', KEYS[3], id) then return {'known'} end
if not epoch or epoch == ARGV[2] then return {'same'} end
local job = redis.call('HMGET', KEYS[2], 'rev', 'ended', 'delay', 'pending', 'queue')
if not job[1] or job[2] then return {'unknown'} end
local is_by_hand = is_manual(id)
redis.call('HSET', KEYS[1], 'job', ARGV[4], 'due', ARGV[5], 'queue', ARGV[6], 'kind', is_by_hand and 'manual' or 'regular', 'state',
  'scheduled', 'ready', int(now), 'attempt', ARGV[7], 'fence', ARGV[8], 'reason', ARGV[9])
redis.call('ZADD', KEYS[3], now, id)
redis.call('ZADD', is_by_hand and KEYS[10] or KEYS[4], ARGV[5], id)
-- The end of the run plans the next run of a job with a delay, so a run planned since the loss is
-- removed.
if not is_by_hand and (job[3] or '') ~= '' and (job[4] or '') ~= '' and job[5] == ARGV[6] then
  redis.call('ZREM', KEYS[3], job[4])
  plant_pending({job = KEYS[2], jobs = KEYS[7]}, ARGV[4], '')
  unwatch_planned({job = KEYS[2], deadlines = KEYS[11]}, job[4])
end
leave_queue({running = KEYS[8], queue = KEYS[9], nudge = KEYS[6]}, id)
nudge_if_head(KEYS[6], KEYS[3], id)
return {'returned'}
