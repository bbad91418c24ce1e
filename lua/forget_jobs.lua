#!lua flags=allow-oom
-- Deletes the records and ledgers of ended jobs whose retention is over.
-- Guard: the job has ended, and none of its runs is open, waiting, spread or manual and not ended.
-- A job that was added again only leaves the index. At most 100 jobs a call.
-- KEYS 1 finished
-- KEYS 2 counters
-- KEYS 3 not_while
-- KEYS 4 not_while_recent
-- KEYS 5 job_gates
-- KEYS* job
-- KEYS* open
-- KEYS* waiting
-- KEYS* catch_up
-- KEYS* manual
-- KEYS* ledger
-- KEYS* ledger_before
-- KEYS* audit_log
-- KEYS* schedule_versions
-- ARGV 1 now
-- ARGV* job_name
-- Reply forgotten: the number of deleted jobs
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'hash', KEYS[3], 'zset', KEYS[4], 'zset', KEYS[5], 'zset'})
if bad then return bad end
local forgotten = 0
local now = clock(ARGV[1])
for at = 1, #ARGV - 1 do
  local name, first = ARGV[at + 1], at * 9 - 3
  local job, ledger, before = KEYS[first], KEYS[first + 5], KEYS[first + 6]
  local is_idle = redis.call('EXISTS', KEYS[first + 1], KEYS[first + 2], KEYS[first + 3], KEYS[first + 4]) == 0
  local ended = redis.call('TYPE', job).ok == 'hash' and redis.call('HGET', job, 'ended')
  if ended and is_idle then
    set_not_while(KEYS[3], KEYS[4], job, name, '')
    set_gate_entry(KEYS[5], job, '')
    redis.call('DEL', job)
    for _, log in ipairs({KEYS[first + 7], KEYS[first + 8]}) do
      if not wrong_type({log, 'zset'}) then redis.call('UNLINK', log) end
    end
    forgotten = forgotten + 1
    if not wrong_type({ledger, 'zset', before, 'hash'}) then
      local ranges = redis.call('ZCARD', ledger)
      if ranges > 0 then add_to_counter(KEYS[2], 'ledger_ranges', -ranges) end
      redis.call('UNLINK', ledger, before)
    end
  end
  if not ended or is_idle then
    redis.call('ZREM', KEYS[1], name)
  else
    -- The job gets the score of a job that ended now, so that it does not block the deletion of
    -- other jobs.
    redis.call('ZADD', KEYS[1], now, name)
  end
end
return {'forgotten', forgotten}
