#!lua flags=allow-oom
-- Deletes the records and ledgers of ended jobs whose retention is over.
-- Guard: the job has ended, and none of its runs is open, waiting, spread or manual and not ended.
-- A job that was added again only leaves the index. At most 100 jobs a call.
-- Keys: finished, counters, not_while, not_while_recent, job_gates
-- Keys of each item: job, open, waiting, catch_up, manual, ledger, ledger_before, audit_log,
--   schedule_versions
-- Args: now
-- Args of each item: job_name
-- Reply forgotten: the number of deleted jobs
-- Reply wrong_type: key, found, wanted

local forgotten = 0
for at = 1, item_count do
  local k = item(at)
  local job, ledger, before, name = k.job, k.ledger, k.ledger_before, k.job_name
  local is_idle = redis.call('EXISTS', k.open, k.waiting, k.catch_up, k.manual) == 0
  local ended = redis.call('TYPE', job).ok == 'hash' and redis.call('HGET', job, 'ended')
  if ended and is_idle then
    set_not_while(k.not_while, k.not_while_recent, job, name, '')
    set_gate_entry(k.job_gates, job, '')
    redis.call('DEL', job)
    for _, log in ipairs({k.audit_log, k.schedule_versions}) do
      if not wrong_type({log, 'zset'}) then redis.call('UNLINK', log) end
    end
    forgotten = forgotten + 1
    if not wrong_type({ledger, 'zset', before, 'hash'}) then
      local ranges = redis.call('ZCARD', ledger)
      if ranges > 0 then add_to_counter(k.counters, 'ledger_ranges', -ranges) end
      redis.call('UNLINK', ledger, before)
    end
  end
  if not ended or is_idle then
    redis.call('ZREM', k.finished, name)
  else
    -- The job gets the score of a job that ended now, so that it does not block the deletion of
    -- other jobs.
    redis.call('ZADD', k.finished, now, name)
  end
end
return {'forgotten', forgotten}
