#!lua flags=allow-oom
-- Moves an unreadable entry from a set to quarantine, because each poll would find the entry again.
-- A due run gives up its places at gates, so that other runs need not wait until an operator
-- restores it.
-- Guard: the entry still has the score that the caller read. A run that executes or waits elsewhere
-- keeps its places.
-- At most 10,000 entries are kept; when the quarantine is full, the entry is deleted, counted and
-- logged.
-- Keys: set:zset (due or leases), quarantine, counters, run:any (of a due run, else the
--   quarantine), nudge
-- Gates: the keys of the gates in the argument gates
-- Args: now, member, score, why, id (of a due run, or ''), gates (the gates at which that run has
--   places)
-- Reply quarantined
-- Reply dropped: the quarantine is full; the caller logs the entry
-- Reply gone
-- Reply places: the gates at which the run has places; the caller must repeat the call with them
-- Reply wrong_type: key, found, wanted

-- A server may write a score in two forms: Valkey 9 answers ZSCORE and ZSCAN by different digits.
if tonumber(redis.call('ZSCORE', k.set, member) or '') ~= tonumber(score) then return {'gone'} end
local names = {}
-- A record of a wrong type must not keep the entry in the set.
if id ~= '' and redis.call('TYPE', k.run).ok == 'hash' then
  local run = redis.call('HMGET', k.run, 'state', 'places')
  if run[1] ~= 'running' then
    local gates_bad = missing_places(k.gates, run[2] or '')
    if gates_bad then return gates_bad end
    names = gate_names(run[2])
  end
  for _, name in ipairs(names) do
    if redis.call('ZSCORE', k.gates[name].waiters, id) then
      names = {}
      break
    end
  end
end
if redis.call('HLEN', k.quarantine) >= QUARANTINE then
  add_to_counter(k.counters, 'quarantine_dropped', 1)
  redis.call('ZREM', k.set, member)
  leave_gates(k, id, names, 'left', now)
  return {'dropped'}
end
local entry = cjson.encode({key = k.set, score = score, why = why, at = int(now)})
-- The quarantine may have an entry for the same member of another set.
local field = member
if redis.call('HEXISTS', k.quarantine, field) == 1 then field = field .. ' ' .. int(now) .. ' ' .. redis.call('HLEN', k.quarantine) end
redis.call('HSET', k.quarantine, field, entry)
redis.call('ZREM', k.set, member)
leave_gates(k, id, names, 'left', now)
return {'quarantined'}
