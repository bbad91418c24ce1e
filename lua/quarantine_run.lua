#!lua flags=allow-oom
-- Moves an unreadable entry from a set to quarantine, because each poll would find the entry again.
-- A due run gives up its places at gates, so that other runs need not wait until an operator
-- restores it.
-- Guard: the entry still has the score that the caller read. A run that executes or waits elsewhere
-- keeps its places.
-- At most 10,000 entries are kept; when the quarantine is full, the entry is deleted, counted and
-- logged.
-- KEYS 1 set: due or leases
-- KEYS 2 quarantine
-- KEYS 3 counters
-- KEYS 4 run: of a due run, else the quarantine
-- KEYS 5 nudge
-- KEYS+ gate_timers, then holders, waiters, by_job, by_lane, lanes, state and rules: of each gate
-- ARGV 1 now
-- ARGV 2 member
-- ARGV 3 score
-- ARGV 4 why
-- ARGV 5 id: of a due run, or ''
-- ARGV 6 gates: the gates at which that run has places
-- Reply quarantined
-- Reply dropped: the quarantine is full; the caller logs the entry
-- Reply gone
-- Reply places: the gates at which the run has places; the caller must repeat the call with them
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local bad = wrong_type({KEYS[1], 'zset', KEYS[2], 'hash', KEYS[3], 'hash'})
if bad then return bad end
local score = redis.call('ZSCORE', KEYS[1], ARGV[2])
if not score or score ~= ARGV[3] then return {'gone'} end
local k = {counters = KEYS[3], nudge = KEYS[5], gates = gates_of(ARGV[6])}
local names = {}
-- A record of a wrong type must not keep the entry in the set.
if ARGV[5] ~= '' and redis.call('TYPE', KEYS[4]).ok == 'hash' then
  local run = redis.call('HMGET', KEYS[4], 'state', 'places')
  if run[1] ~= 'running' then
    local gates_bad = missing_places(k.gates, run[2] or '')
    if gates_bad then return gates_bad end
    names = gate_names(run[2])
  end
  for _, name in ipairs(names) do
    if redis.call('ZSCORE', k.gates[name].waiters, ARGV[5]) then
      names = {}
      break
    end
  end
end
if redis.call('HLEN', KEYS[2]) >= QUARANTINE then
  add_to_counter(KEYS[3], 'quarantine_dropped', 1)
  redis.call('ZREM', KEYS[1], ARGV[2])
  leave_gates(k, ARGV[5], names, 'left', now)
  return {'dropped'}
end
local entry = cjson.encode({key = KEYS[1], score = score, why = ARGV[4], at = int(now)})
-- The quarantine may have an entry for the same member of another set.
local field = ARGV[2]
if redis.call('HEXISTS', KEYS[2], field) == 1 then field = field .. ' ' .. int(now) .. ' ' .. redis.call('HLEN', KEYS[2]) end
redis.call('HSET', KEYS[2], field, entry)
redis.call('ZREM', KEYS[1], ARGV[2])
leave_gates(k, ARGV[5], names, 'left', now)
return {'quarantined'}
