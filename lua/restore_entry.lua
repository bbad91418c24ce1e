#!lua flags=allow-oom
-- Restores an entry from quarantine to its set. The run of a lease is counted in its queue again,
-- and has the places that its record names. A node then takes the run back. The claim of a due run
-- passes its gates again.
-- Guard: the entry is as the caller read it, and the set does not have the entry. The run of a due
-- entry has not ended. The run of a lease still executes under that fence.
-- KEYS 1 quarantine
-- KEYS 2 set: due or leases
-- KEYS 3 run
-- KEYS 4 job
-- KEYS 5 nudge
-- KEYS 6 running: in the run's queue
-- KEYS+ gate_timers, then holders, waiters, by_job, by_lane, lanes, state and rules: of each gate
-- ARGV 1 now
-- ARGV 2 field: the entry's name
-- ARGV 3 entry: as the caller read it
-- ARGV 4 member
-- ARGV 5 score
-- ARGV 6 fence: of a lease, or '' for a due run
-- ARGV 7 id
-- ARGV 8 lane: of a lease's run, as the caller read it
-- ARGV 9 gates: the gates at which the run of a lease has places
-- Reply restored
-- Reply gone: the entry is missing or has changed
-- Reply taken: the set has the entry already
-- Reply refused: the reason as text
-- Reply places: the gates at which the run of a lease has places; the caller must repeat the call
--   with them
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local gates = gates_of(ARGV[9])
local bad = wrong_type({KEYS[1], 'hash', KEYS[2], 'zset', KEYS[3], 'hash', KEYS[4], 'hash', KEYS[6], 'zset'})
if bad then return bad end
if redis.call('HGET', KEYS[1], ARGV[2]) ~= ARGV[3] then return {'gone'} end
if redis.call('ZSCORE', KEYS[2], ARGV[4]) then return {'taken'} end
local run = redis.call('HMGET', KEYS[3], 'state', 'fence', 'queue', 'places')
local is_lease = ARGV[6] ~= ''
if is_lease then
  if run[1] ~= 'running' or run[2] ~= ARGV[6] then return {'refused', 'the run does not execute under the fence of this lease'} end
  if run[3] ~= ARGV[8] then return {'refused', 'the run is now in another lane; repeat the command'} end
  local gates_bad = missing_places(gates, run[4] or '')
  if gates_bad then return gates_bad end
else
  if run[1] and run[1] ~= 'scheduled' then return {'refused', 'the state of the run is ' .. run[1] .. ', wanted scheduled'} end
  if redis.call('EXISTS', KEYS[4]) == 0 then return {'refused', 'the job of the run is unknown'} end
  if not run[1] and redis.call('HGET', KEYS[4], 'pending') ~= ARGV[4] then
    return {'refused', 'the run has no record, and the job does not plan this run'}
  end
end
redis.call('ZADD', KEYS[2], ARGV[5], ARGV[4])
if is_lease then
  redis.call('ZADD', KEYS[6], 'NX', now, ARGV[7])
  for _, name in ipairs(gate_names(run[4])) do redis.call('ZADD', gates[name].holders, now, ARGV[7]) end
end
redis.call('HDEL', KEYS[1], ARGV[2])
wake_nodes(KEYS[5], 'due')
return {'restored'}
