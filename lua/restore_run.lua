#!lua flags=allow-oom
-- Writes back how a run ended, from the journal of the node that ended it, after Redis lost that: it is taken out wherever it
-- stands, and its job's next is planted if it was the planned one.
-- Guard: the data still has the mark the loss gave it; Redis knows neither this end, nor another, nor a later claim; rev as
-- given if the run is the planned one.
-- KEYS 1 run
-- KEYS 2 job
-- KEYS 3 jobs
-- KEYS 4 due: of the run's lane
-- KEYS 5 job_due: of the job's lane
-- KEYS 6 leases
-- KEYS 7 open
-- KEYS 8 waiting
-- KEYS 9 stops
-- KEYS 10 history
-- KEYS 11 job_history
-- KEYS 12 finished
-- KEYS 13 totals
-- KEYS 14 nudge
-- KEYS 15 dead
-- KEYS 16 job_dead
-- KEYS 17 running
-- KEYS 18 queue
-- KEYS 19 successor_run
-- KEYS 20 spread
-- KEYS 21 epoch
-- KEYS+ gate_wakes, then held, queued, by_job, state and rules: of each gate
-- ARGV 1 now
-- ARGV 2 read: the epoch this is done under
-- ARGV 3 id
-- ARGV 4 job_name
-- ARGV 5 due_ms
-- ARGV 6 lane
-- ARGV 7 known: ended, or claimed (it may not start again, and how it ended is not known)
-- ARGV 8 state
-- ARGV 9 reason
-- ARGV 10 finished_at
-- ARGV 11 fence
-- ARGV 12 rev: of the job as read, or '' if the run is not its planned one
-- ARGV 13 successor: id or ''
-- ARGV 14 successor_due
-- ARGV 15 successor_ready
-- ARGV 16 gates: at which the run stands
-- ARGV* field: facts of the run
-- ARGV* value
-- Reply restored
-- Reply known: Redis knows this end, or what came after it
-- Reply stale: the run is the planned one of a job that was read otherwise
-- Reply occupied: the successor's id already has a record
-- Reply moved: epoch
-- Reply places: the gates it stands at; the call does not have them all
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local k = {run = KEYS[1], job = KEYS[2], jobs = KEYS[3], due = KEYS[4], job_due = KEYS[5], leases = KEYS[6], open = KEYS[7],
  waiting = KEYS[8], stops = KEYS[9], history = KEYS[10], job_history = KEYS[11], finished = KEYS[12], totals = KEYS[13],
  nudge = KEYS[14], dead = KEYS[15], job_dead = KEYS[16], running = KEYS[17], queue = KEYS[18],
  gates = gates_of(ARGV[16])}
local bad = wrong_type({k.run, 'hash', k.job, 'hash', k.jobs, 'zset', k.due, 'zset', k.job_due, 'zset', k.leases, 'zset',
  k.open, 'zset', k.waiting, 'zset', k.stops, 'hash', k.history, 'zset', k.job_history, 'zset', k.finished, 'zset', k.totals, 'hash',
  k.dead, 'zset', k.job_dead, 'zset', k.running, 'zset', k.queue, 'hash', KEYS[20], 'zset', KEYS[21], 'string'})
if bad then return bad end
local epoch = redis.call('GET', KEYS[21]) or ''
if epoch ~= ARGV[2] then return {'moved', epoch} end
local id, fence = ARGV[3], tonumber(ARGV[11])
local run = redis.call('HMGET', k.run, 'state', 'fence', 'settled', 'places')
local last = whole(run[2], FENCE)
-- One that Redis knew to be settled and that is to run again was asked for again by somebody.
if run[1] and run[1] ~= 'scheduled' and run[1] ~= 'running' then return {'known'} end
if last > fence or run[3] == ARGV[11] then return {'known'} end
local member = id .. '#' .. ARGV[11]
if ARGV[7] == 'claimed' and redis.call('ZSCORE', k.leases, member) then return {'known'} end
local job = redis.call('HMGET', k.job, 'rev', 'pending', 'held', 'begun', 'max_runs')
local is_pending, is_held = job[2] == id, job[3] == id
if is_pending or is_held then
  if job[1] ~= ARGV[12] then return {'stale'} end
  if is_planted_before(ARGV[13], KEYS[19]) then return {'occupied', ARGV[13]} end
end
local gates_bad = missing_places(k.gates, run[4] or '')
if gates_bad then return gates_bad end
local places = gate_names(run[4])

local facts = {'job', ARGV[4], 'due', ARGV[5], 'queue', ARGV[6], 'fence', ARGV[11], 'settled', ARGV[11], 'verdict', ARGV[8],
  'kind', string.find(id, '~', 1, true) and 'manual' or 'regular'}
for at = 17, #ARGV do facts[#facts + 1] = ARGV[at] end
end_run(k, id, ARGV[8], ARGV[9], math.min(tonumber(ARGV[10]), now), facts)
-- A beginning that Redis lost too counts for max_runs.
local begun = whole(job[4], COUNT)
if last == 0 and job[1] and not string.find(id, '~', 1, true) then
  begun = begun + 1
  redis.call('HSET', k.job, 'begun', begun)
end
local is_used_up = begun >= (tonumber(job[5]) or math.huge)
if is_pending then
  plant_pending(k, ARGV[4], is_used_up and '' or ARGV[13], ARGV[14], ARGV[15])
elseif is_held then
  if ARGV[13] == '' then redis.call('HDEL', k.job, 'held') else redis.call('HSET', k.job, 'held', ARGV[13]) end
end
if places[1] then redis.call('HDEL', k.run, 'places') end
leave_gates(k, id, places, 'ended', now)
redis.call('ZREM', k.due, id)
redis.call('ZREM', k.job_due, id)
redis.call('ZREM', KEYS[20], id)
redis.call('ZREM', k.leases, member, id .. '#' .. int(last))
leave_queue(k, id)
redis.call('HDEL', k.stops, id)
if redis.call('ZREM', k.waiting, id) == 1 then tally(k.totals, 'waiting', -1) end
release_blocked(k, id, now)
settle_job(k, id, ARGV[4], now)
return {'restored'}
