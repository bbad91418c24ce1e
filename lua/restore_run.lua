#!lua flags=allow-oom
-- Restores the end of a run from the journal of the node that ended the run, after Redis lost that
-- end. The run leaves all indexes of runs that have not ended. A skipped range or a ledger range
-- that counts the run is reduced by it. If the run was the job's planned run, the next run is
-- planned.
-- The job's revision rises, so that a caller about to record a skipped range reads the job again.
-- An occurrence older than the ledger's ranges was counted there with an unknown end. The end is
-- assumed to be `skipped`, so that count falls by one.
-- Guard: the data still has the epoch of the loss. Redis knows no end and no later claim of the
-- run.
-- The revision is as given if the run is the planned run. `skipped_records`, the skipped range, the
-- ledger's range and the job's lane are as the caller read them.
-- KEYS 1 run
-- KEYS 2 job
-- KEYS 3 jobs
-- KEYS 4 due: of the run's lane
-- KEYS 5 job_due: of the job's lane
-- KEYS 6 leases
-- KEYS 7 open
-- KEYS 8 waiting
-- KEYS 9 stop_requests
-- KEYS 10 history
-- KEYS 11 job_history
-- KEYS 12 finished
-- KEYS 13 counters
-- KEYS 14 nudge
-- KEYS 15 dead
-- KEYS 16 job_dead
-- KEYS 17 running
-- KEYS 18 queue
-- KEYS 19 notices
-- KEYS 20 successor_run
-- KEYS 21 catch_up
-- KEYS 22 epoch
-- KEYS 23 range_run: the record of the skipped range that counts the run, else the run
-- KEYS 24 rest_run: the record for the rest of that range, else the run
-- KEYS 25 ledger
-- KEYS 26 ledger_before
-- KEYS 27 manual
-- KEYS 28 deadlines
-- KEYS+ gate_timers, then holders, waiters, by_job, by_lane, lanes, state and rules: of each gate
-- ARGV 1 now
-- ARGV 2 read: the epoch of the data to which the run is restored
-- ARGV 3 id
-- ARGV 4 job_name
-- ARGV 5 due_ms
-- ARGV 6 lane
-- ARGV 7 known: ended, or claimed (the run must not start again, and its end is unknown)
-- ARGV 8 state
-- ARGV 9 reason
-- ARGV 10 finished_at
-- ARGV 11 fence
-- ARGV 12 rev: of the job as the caller read it, or '' if the run is not its planned run
-- ARGV 13 successor: the id of a run, or ''
-- ARGV 14 successor_due
-- ARGV 15 successor_ready
-- ARGV 16 gates: the gates at which the run has places
-- ARGV 17 skipped_records: the job's count of recorded skipped ranges, as the caller read it
-- ARGV 18 range_to: the last occurrence of the skipped range, or '' if no range counts the run
-- ARGV 19 range_count: the number of occurrences in that range, as the caller read it
-- ARGV 20 rest: the id of the first run in the rest of the range, or ''
-- ARGV 21 rest_due
-- ARGV 22 rest_to
-- ARGV 23 rest_count
-- ARGV 24 job_lane: of the job as the caller read it, or '' if the job could not be read
-- ARGV 25 notified_before: ends before this time were reported before the loss
-- ARGV 26 range: FROM:TO:COUNT:STATE of the ledger's range that contains the run, as the caller
--   read it, or ''
-- ARGV 27 left: the rest of that range without the run, FROM:TO:COUNT or ''; all, if the range does
--   not count the run; known, if the range counts the run with its end
-- ARGV* field: a fact of the run
-- ARGV* value
-- Reply restored
-- Reply known: Redis knows this end, or a later state of the run
-- Reply stale: the job, or the range that counts the run as skipped, has changed
-- Reply occupied: the successor already has a record
-- Reply moved: epoch
-- Reply places: the gates at which the run has places; the caller must repeat the call with them
-- Reply wrong_type: key, found, wanted
local now, micros = clock(ARGV[1])
local k = {run = KEYS[1], job = KEYS[2], jobs = KEYS[3], due = KEYS[4], job_due = KEYS[5], leases = KEYS[6], open = KEYS[7],
  waiting = KEYS[8], stop_requests = KEYS[9], history = KEYS[10], job_history = KEYS[11], finished = KEYS[12], counters = KEYS[13],
  nudge = KEYS[14], dead = KEYS[15], job_dead = KEYS[16], running = KEYS[17], queue = KEYS[18], notices = KEYS[19],
  deadlines = KEYS[28], manual = KEYS[27], gates = gates_of(ARGV[16])}
local bad = wrong_type({k.run, 'hash', k.job, 'hash', k.jobs, 'zset', k.due, 'zset', k.job_due, 'zset', k.leases, 'zset',
  k.open, 'zset', k.waiting, 'zset', k.stop_requests, 'hash', k.history, 'zset', k.job_history, 'zset', k.finished, 'zset', k.counters, 'hash',
  k.dead, 'zset', k.job_dead, 'zset', k.running, 'zset', k.queue, 'hash', k.notices, 'zset', KEYS[21], 'zset', KEYS[22], 'string',
  KEYS[23], 'hash', KEYS[24], 'hash', k.manual, 'zset', k.deadlines, 'zset'})
if bad then return bad end
local epoch = redis.call('GET', KEYS[22]) or ''
if epoch ~= ARGV[2] then return {'moved', epoch} end
local id, fence = ARGV[3], tonumber(ARGV[11])
local run = redis.call('HMGET', k.run, 'state', 'fence', 'verdict_fence', 'places')
local last = whole(run[2], FENCE)
local is_regular = not is_manual(id)
-- The occurrence was recorded as skipped without a claim, but ran before Redis lost its data. A
-- manual run has no occurrence, so no range counts it.
local is_skipped = is_regular and run[1] == 'skipped' and not run[2]
-- An operator retried a run if Redis knew its end and the run is scheduled again.
if run[1] and run[1] ~= 'scheduled' and run[1] ~= 'running' and not is_skipped then return {'known'} end
if last > fence or run[3] == ARGV[11] then return {'known'} end
local member = id .. '#' .. ARGV[11]
if ARGV[7] == 'claimed' and redis.call('ZSCORE', k.leases, member) then return {'known'} end
local job = redis.call('HMGET', k.job, 'rev', 'pending', 'paused_run', 'started_count', 'max_runs', 'skipped_records')
local is_pending, is_paused_run = job[2] == id, job[3] == id
if is_pending or is_paused_run then
  if job[1] ~= ARGV[12] then return {'stale'} end
  if is_planted_before(ARGV[13], KEYS[20]) then return {'occupied', ARGV[13]} end
end
local is_in_range, rest = ARGV[18] ~= '', ARGV[20]
local is_first = is_in_range and KEYS[23] == k.run
-- Runs that become due by this end belong into the job's lane. An entry of this run in a former
-- lane starts nothing, because a claim removes a run that has ended.
if ARGV[24] ~= '' and changed_lane(k, ARGV[24]) then return {'stale'} end
if is_regular and whole(job[6], COUNT) ~= tonumber(ARGV[17]) then return {'stale'} end
-- The job's history no longer has this record, so it cannot be read as a skipped range.
if is_skipped and not is_in_range and not redis.call('ZSCORE', k.job_history, id) then return {'known'} end
if is_skipped ~= is_first then return {'stale'} end
if is_in_range then
  local found = redis.call('HMGET', KEYS[23], 'state', 'skipped_to', 'skipped_count')
  if found[1] ~= 'skipped' or (found[2] or ARGV[5]) ~= ARGV[18] or (found[3] or '1') ~= ARGV[19] then return {'stale'} end
  if is_first and rest ~= '' and redis.call('EXISTS', KEYS[24]) == 1 then return {'stale'} end
end
-- An occurrence without a record that is not planned was counted in the ledger, or is unknown. A
-- ledger of a wrong type is ignored.
local ledger, before = KEYS[25], KEYS[26]
local is_trimmed = is_regular and not run[1] and not is_pending and not is_paused_run
  and not wrong_type({ledger, 'zset', before, 'hash'})
local range = is_trimmed and range_at(ledger, tonumber(ARGV[5]))
if is_trimmed and name_of(range) ~= ARGV[26] then return {'stale'} end
if range and ARGV[27] == 'known' then return {'known'} end
local gates_bad = missing_places(k.gates, run[4] or '')
if gates_bad then return gates_bad end
local places = gate_names(run[4])

local facts = {'job', ARGV[4], 'due', ARGV[5], 'queue', ARGV[6], 'fence', ARGV[11], 'verdict_fence', ARGV[11], 'verdict', ARGV[8],
  'kind', is_regular and 'regular' or 'manual'}
for at = 28, #ARGV do facts[#facts + 1] = ARGV[at] end
if is_in_range then
  if is_first and rest ~= '' then
    local ended = redis.call('ZSCORE', k.history, id) or now
    redis.call('HSET', KEYS[24], unpack(redis.call('HGETALL', k.run)))
    redis.call('HSET', KEYS[24], 'due', ARGV[21])
    redis.call('ZADD', k.history, ended, rest)
    redis.call('ZADD', k.job_history, ended, rest)
  end
  if rest ~= '' then redis.call('HSET', KEYS[24], 'skipped_to', ARGV[22], 'skipped_count', ARGV[23]) end
  if is_first then redis.call('DEL', k.run) end
  add_to_counter(k.counters, 'skipped', -1)
end
if range and ARGV[27] ~= 'all' then
  shrink_range(ledger, k.counters, range, ARGV[27])
  add_to_counter(k.counters, 'skipped', -1)
elseif is_trimmed and not is_in_range and not range and whole(redis.call('HGET', before, 'until'), PARKED) >= tonumber(ARGV[5]) then
  local skipped = whole(redis.call('HGET', before, 'skipped'), FENCE)
  if skipped > 0 then
    redis.call('HSET', before, 'skipped', int(skipped - 1))
    add_to_counter(k.counters, 'skipped', -1)
  end
end
k.given = tonumber(ARGV[25])
end_run(k, id, ARGV[8], ARGV[9], math.min(tonumber(ARGV[10]), now), facts)
-- The start that Redis lost also counts for max_runs.
local started = whole(job[4], COUNT)
if last == 0 and job[1] and is_regular then
  started = started + 1
  redis.call('HSET', k.job, 'started_count', started)
end
if job[1] and is_regular then redis.call('HSET', k.job, 'rev', int(math.max(whole(job[1], FENCE - 1) + 1, micros))) end
local is_used_up = started >= (tonumber(job[5]) or math.huge)
if is_pending then
  plant_pending(k, ARGV[4], is_used_up and '' or ARGV[13], ARGV[14], ARGV[15])
elseif is_paused_run then
  if ARGV[13] == '' then redis.call('HDEL', k.job, 'paused_run') else redis.call('HSET', k.job, 'paused_run', ARGV[13]) end
end
if places[1] then redis.call('HDEL', k.run, 'places') end
leave_gates(k, id, places, 'ended', now)
redis.call('ZREM', k.due, id)
redis.call('ZREM', k.job_due, id)
redis.call('ZREM', KEYS[21], id)
redis.call('ZREM', k.leases, member, id .. '#' .. int(last))
leave_queue(k, id)
redis.call('HDEL', k.stop_requests, id)
if redis.call('ZREM', k.waiting, id) == 1 then add_to_counter(k.counters, 'waiting', -1) end
release_blocked(k, id, now)
end_or_plan_job(k, id, ARGV[4], now)
return {'restored'}
