#!lua
-- Queues past occurrences of a job for backfill, one run after the other. Redis itself refuses this
-- script when memory is full, because the script adds runs.
-- Guard: the job is defined. An occurrence that already has or waits for its backfill run is
-- skipped. At most 100 occurrences a call, and 10,000 waiting.
-- KEYS 1 job
-- KEYS 2 backfill
-- KEYS 3 backfills
-- KEYS 4 audit_log
-- KEYS* run
-- ARGV 1 now
-- ARGV 2 job_name
-- ARGV 3 by: the user who asks for the backfill; '' in the later calls of a request, which has one
--   entry in the audit log
-- ARGV* id
-- ARGV* due_ms
-- Reply queued: the number of added occurrences
-- Reply full: the number of occurrences added before the limit was reached
-- Reply unknown
-- Reply wrong_type: key, found, wanted
local WAITING = 10000
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'zset', KEYS[3], 'zset', KEYS[4], 'zset'})
if bad then return bad end
local job = redis.call('HMGET', KEYS[1], 'rev', 'ended')
if not job[1] or job[2] then return {'unknown'} end
local queued, left = 0, WAITING - redis.call('ZCARD', KEYS[2])
if ARGV[3] ~= '' then note_change(KEYS[4], now, 'backfill asked for', ARGV[3], {}) end
for at = 5, #KEYS do
  local id, due_ms = ARGV[at * 2 - 6], ARGV[at * 2 - 5]
  if redis.call('EXISTS', KEYS[at]) == 0 and not redis.call('ZSCORE', KEYS[2], id) then
    if queued >= left then return {'full', queued} end
    redis.call('ZADD', KEYS[3], 'NX', now, ARGV[2])
    redis.call('ZADD', KEYS[2], due_ms, id)
    queued = queued + 1
  end
end
return {'queued', queued}
