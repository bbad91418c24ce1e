#!lua flags=allow-oom
-- Makes one gate agree with the records of runs: who is not to stand there leaves, those that wait stand in both orders, and the
-- gate is looked at anew.
-- Guard: everything is looked at anew, of the runs given, at most 1,000 a call; whoever stands there rightly is not touched.
-- KEYS 1 totals
-- KEYS 2 nudge
-- KEYS* run
-- KEYS+ gate_wakes, then held, queued, by_job, state and rules: of the gate
-- ARGV 1 now
-- ARGV 2 gates: the gate
-- ARGV* id
-- Reply mended: how many left
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local totals = KEYS[1]
local gates, last = gates_of(ARGV[2])
local gate = gates[ARGV[2]]
local types = {totals, 'hash'}
for at = 3, last do
  types[#types + 1] = KEYS[at]
  types[#types + 1] = 'hash'
end
local bad = wrong_type(types) or spoilt_gate(gates, {ARGV[2]})
if bad then return bad end
local left = 0
for at = 3, last do
  local id = ARGV[at]
  local run = redis.call('HMGET', KEYS[at], 'state', 'places')
  local stands = false
  for _, name in ipairs(gate_names(run[2])) do stands = stands or name == gate.name end
  if not stands or run[1] ~= 'scheduled' and run[1] ~= 'running' then
    if stop_waiting(gate, id) then
      tally(totals, 'waiting', -1)
      left = left + 1
    end
    left = left + redis.call('ZREM', gate.held, id)
  elseif redis.call('ZSCORE', gate.queued, id) then
    redis.call('ZADD', gate.by_job, 0, entry_of(id))
    redis.call('ZREM', gate.held, id)
  end
end
if redis.call('ZCARD', gate.by_job) > redis.call('ZCARD', gate.queued) then
  for _, entry in ipairs(redis.call('ZRANGE', gate.by_job, 0, 9999)) do
    if not redis.call('ZSCORE', gate.queued, string.match(entry, '(%S+)$') or '') then redis.call('ZREM', gate.by_job, entry) end
  end
end
wake_gate(gates.wakes, gate, now)
redis.call('PUBLISH', KEYS[2], 'due')
return {'mended', left}
