#!lua flags=allow-oom
-- Writes and removes index entries of one run, so that the indexes match its record. A run that
-- leaves its job's list of open or manual runs lets the next waiting run begin.
-- Guard: the record, the job and all index entries of the run are as the caller read them. A lease
-- only has to exist, because its node renews it.
-- Keys: run, job, jobs, job_due (of the run's own lane), open, manual, waiting, finished, counters,
--   nudge, stop_requests
-- Keys of each item: index:zset
-- Gates: the keys of the gates in the argument gates
-- Args: now, id, job_name, seen (the record and the job, as inspect_runs.lua read them), gates (the
--   gates at which the run has places), gate_step (left (the run gives up these places), unqueued
--   (the run only waits there no more), or ''), no_stop (1 to remove the request to stop the run,
--   or ''), ready (the new ready time of the run, if its due score was later than its job's rules
--   allow; or '')
-- Args of each item: member, found (the score as the caller read it; '' if the index did not have
--   the member, '+' for any score), wanted (the new score, '' to remove the member, '=' to keep the
--   score)
-- Reply repaired
-- Reply stale: the run changed; the caller must read the run again
-- Reply wrong_type: key, found, wanted

local places = gate_names(gates)
local bad = gate_wrong_type(k.gates, places)
for at = 1, item_count do bad = bad or wrong_item_type(at) end
if bad then return bad end
local list = is_manual(id) and k.manual or k.open
local _, _, _, placed = placed_by(k.run, k.job, list, id)
if placed ~= seen then return {'stale'} end
for at = 1, item_count do
  local k = item(at)
  local score = redis.call('ZSCORE', k.index, k.member)
  if (score or '') ~= k.found and not (score and k.found == '+') then return {'stale'} end
end

-- New entries are written first, so that the run is always in an index.
for at = 1, item_count do
  local k = item(at)
  if k.wanted ~= '' and k.wanted ~= '=' then redis.call('ZADD', k.index, k.wanted == 'now' and now or k.wanted, k.member) end
end
if ready ~= '' and redis.call('HEXISTS', k.run, 'ready') == 1 then
  redis.call('HSET', k.run, 'ready', ready, 'waits_from', int(now))
end
local is_closed = false
for at = 1, item_count do
  local k = item(at)
  if k.wanted == '' and k.found ~= '' then
    if k.index == list then is_closed = true end
    if k.index == k.waiting then add_to_counter(k.counters, 'waiting', -1) end
    redis.call('ZREM', k.index, k.member)
  end
end
if no_stop == '1' then redis.call('HDEL', k.stop_requests, id) end
if gate_step == 'left' then
  redis.call('HDEL', k.run, 'places')
  leave_gates(k, id, places, 'left', now)
elseif gate_step == 'unqueued' then
  for _, name in ipairs(places) do
    if stop_waiting(k.gates[name], id) then
      add_to_counter(k.counters, 'waiting', -1)
      set_gate_timer(k.gates.timers, k.gates[name], now)
    end
  end
end
if is_closed then
  release_blocked(k, id, now)
  end_or_plan_job(k, id, job_name, now)
end
wake_nodes(k.nudge, 'due')
return {'repaired'}
