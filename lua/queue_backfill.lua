#!lua
-- Queues past occurrences of a job for backfill, one run after the other. Redis itself refuses this
-- script when memory is full, because the script adds runs.
-- Guard: the job is defined. An occurrence that already has or waits for its backfill run is
-- skipped. At most 100 occurrences a call, and 10,000 waiting.
-- Keys: job, backfill, backfills, audit_log
-- Keys of each item: run
-- Args: now, job_name, by (the user who asks for the backfill; '' in the later calls of a request,
--   which has one entry in the audit log)
-- Args of each item: id, due_ms
-- Reply queued: the number of added occurrences
-- Reply full: the number of occurrences added before the limit was reached
-- Reply unknown
-- Reply wrong_type: key, found, wanted

local WAITING = 10000
local job = redis.call('HMGET', k.job, 'rev', 'ended')
if not job[1] or job[2] then return {'unknown'} end
local queued, left = 0, WAITING - redis.call('ZCARD', k.backfill)
if by ~= '' then note_change(k.audit_log, now, 'backfill asked for', by, {}) end
for at = 1, item_count do
  local k = item(at)
  if redis.call('EXISTS', k.run) == 0 and not redis.call('ZSCORE', k.backfill, k.id) then
    if queued >= left then return {'full', queued} end
    redis.call('ZADD', k.backfills, 'NX', now, job_name)
    redis.call('ZADD', k.backfill, k.due_ms, k.id)
    queued = queued + 1
  end
end
return {'queued', queued}
