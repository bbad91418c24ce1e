#!lua
-- Plans a run for a job's @reboot on one host, ready now. Only nodes of that host poll its due set.
-- Guard: the job is defined and not paused, and no run of the job was planned for this boot of the
-- host. So a repeated call, a restart of the daemon and a second node of the host plan no run.
-- KEYS 1 job
-- KEYS 2 run
-- KEYS 3 due: of the host
-- KEYS 4 nudge
-- KEYS 5 boot_runs
-- KEYS 6 manual
-- ARGV 1 now
-- ARGV 2 id
-- ARGV 3 job_name
-- ARGV 4 due_ms
-- ARGV 5 lane: of the host
-- ARGV 6 boot: the host and the id of its boot
-- Reply planted
-- Reply known: a run was already planned for this boot
-- Reply unknown
-- Reply paused
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'hash', KEYS[3], 'zset', KEYS[5], 'zset', KEYS[6], 'zset'})
if bad then return bad end
local mark = ARGV[3] .. ' ' .. ARGV[6]
local job = redis.call('HMGET', KEYS[1], 'rev', 'ended', 'paused')
if not job[1] or job[2] then return {'unknown'} end
if redis.call('ZSCORE', KEYS[5], mark) then return {'known'} end
if job[3] then return {'paused'} end
redis.call('ZADD', KEYS[5], now, mark)
redis.call('ZREMRANGEBYRANK', KEYS[5], 0, -10001)
redis.call('HSET', KEYS[2], 'job', ARGV[3], 'due', ARGV[4], 'queue', ARGV[5], 'kind', 'manual', 'rev', job[1], 'state', 'scheduled',
  'planted_at', int(now))
redis.call('ZADD', KEYS[6], ARGV[4], ARGV[2])
redis.call('ZADD', KEYS[3], now, ARGV[2])
nudge_if_head(KEYS[4], KEYS[3], ARGV[2])
return {'planted'}
