#!lua flags=allow-oom
-- Restores an entry from quarantine to its set. The run of a lease is counted in its queue again,
-- and has the places that its record names. A node then takes the run back. The claim of a due run
-- passes its gates again.
-- Guard: the entry is as the caller read it, and the set does not have the entry. The run of a due
-- entry has not ended. The run of a lease still executes under that fence.
-- Keys: quarantine, set:zset (due or leases), run, job, nudge, running (in the run's queue)
-- Gates: the keys of the gates in the argument gates
-- Args: now, field (the entry's name), entry (as the caller read it), member, score, fence (of a
--   lease, or '' for a due run), id, lane (of a lease's run, as the caller read it), gates (the
--   gates at which the run of a lease has places)
-- Reply restored
-- Reply gone: the entry is missing or has changed
-- Reply taken: the set has the entry already
-- Reply refused: the reason as text
-- Reply places: the gates at which the run of a lease has places; the caller must repeat the call
--   with them
-- Reply wrong_type: key, found, wanted

if redis.call('HGET', k.quarantine, field) ~= entry then return {'gone'} end
if redis.call('ZSCORE', k.set, member) then return {'taken'} end
local run = redis.call('HMGET', k.run, 'state', 'fence', 'queue', 'places')
local is_lease = fence ~= ''
if is_lease then
  if run[1] ~= 'running' or run[2] ~= fence then return {'refused', 'the run does not execute under the fence of this lease'} end
  if run[3] ~= lane then return {'refused', 'the run is now in another lane; repeat the command'} end
  local gates_bad = missing_places(k.gates, run[4] or '')
  if gates_bad then return gates_bad end
else
  if run[1] and run[1] ~= 'scheduled' then return {'refused', 'the state of the run is ' .. run[1] .. ', wanted scheduled'} end
  if redis.call('EXISTS', k.job) == 0 then return {'refused', 'the job of the run is unknown'} end
  if not run[1] and redis.call('HGET', k.job, 'pending') ~= member then
    return {'refused', 'the run has no record, and the job does not plan this run'}
  end
end
redis.call('ZADD', k.set, score, member)
if is_lease then
  redis.call('ZADD', k.running, 'NX', now, id)
  for _, name in ipairs(gate_names(run[4])) do redis.call('ZADD', k.gates[name].holders, now, id) end
end
redis.call('HDEL', k.quarantine, field)
wake_nodes(k.nudge, 'due')
return {'restored'}
