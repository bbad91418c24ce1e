#!lua flags=allow-oom
-- Writes and removes index entries of one run, so that the indexes match its record. A run that
-- leaves its job's list of open or manual runs lets the next waiting run begin.
-- Guard: the record, the job and all index entries of the run are as the caller read them. A lease
-- only has to exist, because its node renews it.
-- KEYS 1 run
-- KEYS 2 job
-- KEYS 3 jobs
-- KEYS 4 job_due: of the run's own lane
-- KEYS 5 open
-- KEYS 6 manual
-- KEYS 7 waiting
-- KEYS 8 finished
-- KEYS 9 counters
-- KEYS 10 nudge
-- KEYS 11 stop_requests
-- KEYS* index
-- KEYS+ gate_timers, then holders, waiters, by_job, by_lane, lanes, state and rules: of each gate
-- ARGV 1 now
-- ARGV 2 id
-- ARGV 3 job_name
-- ARGV 4 seen: the record and the job, as inspect_runs.lua read them
-- ARGV 5 gates: the gates at which the run has places
-- ARGV 6 gate_step: left (the run gives up these places), unqueued (the run only waits there no
--   more), or ''
-- ARGV 7 no_stop: 1 to remove the request to stop the run, or ''
-- ARGV 8 ready: the new ready time of the run, if its due score was later than its job's rules
--   allow; or ''
-- ARGV* member
-- ARGV* found: the score as the caller read it; '' if the index did not have the member, '+' for
--   any score
-- ARGV* wanted: the new score, '' to remove the member, '=' to keep the score
-- Reply repaired
-- Reply stale: the run changed; the caller must read the run again
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local k = {run = KEYS[1], job = KEYS[2], jobs = KEYS[3], job_due = KEYS[4], open = KEYS[5], manual = KEYS[6], waiting = KEYS[7],
  finished = KEYS[8], counters = KEYS[9], nudge = KEYS[10]}
local stop_requests, id = KEYS[11], ARGV[2]
local last
k.gates, last = gates_of(ARGV[5])
local types = {k.run, 'hash', k.job, 'hash', k.jobs, 'zset', k.job_due, 'zset', k.open, 'zset', k.manual, 'zset', k.waiting, 'zset',
  k.finished, 'zset', k.counters, 'hash', stop_requests, 'hash'}
for at = 12, last do types[#types + 1], types[#types + 2] = KEYS[at], 'zset' end
local places = gate_names(ARGV[5])
local bad = wrong_type(types) or gate_wrong_type(k.gates, places)
if bad then return bad end
local list = is_manual(id) and k.manual or k.open
local _, _, _, seen = placed_by(k.run, k.job, list, id)
if seen ~= ARGV[4] then return {'stale'} end
for item = 1, last - 11 do
  local found, score = ARGV[6 + item * 3 + 1], redis.call('ZSCORE', KEYS[11 + item], ARGV[6 + item * 3])
  if (score or '') ~= found and not (score and found == '+') then return {'stale'} end
end

-- New entries are written first, so that the run is always in an index.
for item = 1, last - 11 do
  local key, member, wanted = KEYS[11 + item], ARGV[6 + item * 3], ARGV[6 + item * 3 + 2]
  if wanted ~= '' and wanted ~= '=' then redis.call('ZADD', key, wanted == 'now' and now or wanted, member) end
end
if ARGV[8] ~= '' and redis.call('HEXISTS', k.run, 'ready') == 1 then
  redis.call('HSET', k.run, 'ready', ARGV[8], 'waits_from', int(now))
end
local is_closed = false
for item = 1, last - 11 do
  local key, member, found, wanted = KEYS[11 + item], ARGV[6 + item * 3], ARGV[6 + item * 3 + 1], ARGV[6 + item * 3 + 2]
  if wanted == '' and found ~= '' then
    if key == list then is_closed = true end
    if key == k.waiting then add_to_counter(k.counters, 'waiting', -1) end
    redis.call('ZREM', key, member)
  end
end
if ARGV[7] == '1' then redis.call('HDEL', stop_requests, id) end
if ARGV[6] == 'left' then
  redis.call('HDEL', k.run, 'places')
  leave_gates(k, id, places, 'left', now)
elseif ARGV[6] == 'unqueued' then
  for _, name in ipairs(places) do
    if stop_waiting(k.gates[name], id) then
      add_to_counter(k.counters, 'waiting', -1)
      set_gate_timer(k.gates.timers, k.gates[name], now)
    end
  end
end
if is_closed then
  release_blocked(k, id, now)
  end_or_plan_job(k, id, ARGV[3], now)
end
wake_nodes(k.nudge, 'due')
return {'repaired'}
