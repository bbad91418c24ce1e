#!lua flags=allow-oom
-- Repairs the indexes of one run to match its record: leases, due sets, open, waiting and spread
-- runs, requests to stop, deadlines and history.
-- Guard: the script checks everything anew. Correct data is not touched, nor a run that a node may
-- still execute.
-- KEYS 1 run
-- KEYS 2 job
-- KEYS 3 job_due: of the job's lane
-- KEYS 4 open
-- KEYS 5 waiting
-- KEYS 6 history
-- KEYS 7 job_history
-- KEYS 8 dead
-- KEYS 9 job_dead
-- KEYS 10 finished
-- KEYS 11 totals
-- KEYS 12 nudge
-- KEYS 13 jobs
-- KEYS 14 leases
-- KEYS 15 spread
-- KEYS 16 stops
-- KEYS 17 manual
-- KEYS 18 deadlines
-- KEYS* due: of every lane there is
-- KEYS* running: in its queue
-- KEYS+ gate_wakes, then held, queued, by_job, by_lane, lanes, state and rules: of each gate
-- ARGV 1 now
-- ARGV 2 id
-- ARGV 3 job_name
-- ARGV 4 due_ms
-- ARGV 5 kind: regular or manual
-- ARGV 6 fence: of a lease under which it was found, or ''
-- ARGV 7 gates: the gates at which the run has places
-- ARGV 8 ready: when it may start, if its due score is later than its job's rules allow; or ''
-- ARGV* queue: of the lane
-- Reply mended: a text for each repair
-- Reply sound: nothing was wrong
-- Reply places: the gates at which it has places; the call lacks some of them
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local k = {run = KEYS[1], job = KEYS[2], job_due = KEYS[3], open = KEYS[4], waiting = KEYS[5], history = KEYS[6],
  job_history = KEYS[7], dead = KEYS[8], job_dead = KEYS[9], finished = KEYS[10], totals = KEYS[11], nudge = KEYS[12],
  jobs = KEYS[13], leases = KEYS[14], manual = KEYS[17]}
local last_key
k.gates, last_key = gates_of(ARGV[7])
local spread, stops = KEYS[15], KEYS[16]
k.deadlines = KEYS[18]
local types = {k.run, 'hash', k.job, 'hash', k.job_due, 'zset', k.open, 'zset', k.waiting, 'zset', k.history, 'zset',
  k.job_history, 'zset', k.dead, 'zset', k.job_dead, 'zset', k.finished, 'zset', k.totals, 'hash', k.jobs, 'zset', k.leases, 'zset',
  spread, 'zset', stops, 'hash', k.manual, 'zset', k.deadlines, 'zset'}
local dues = {}
for at = 19, last_key do
  types[#types + 1] = KEYS[at]
  types[#types + 1] = 'zset'
  if at % 2 == 1 then dues[#dues + 1] = KEYS[at] end
end
local bad = wrong_type(types)
if bad then return bad end
local id, is_regular = ARGV[2], ARGV[5] == 'regular'
local run = redis.call('HMGET', k.run, 'state', 'fence', 'finished_at', 'queue', 'places')
local gates_bad = missing_places(k.gates, run[5] or '')
if gates_bad then return gates_bad end
local places = gate_names(run[5])
local job = redis.call('HMGET', k.job, 'rev', 'pending', 'held', 'skipped_behind')
local state, fence = run[1] or 'none', whole(run[2], FENCE)
local is_over = state ~= 'none' and state ~= 'scheduled' and state ~= 'running'
local reply = {'mended'}
local function note(word) reply[#reply + 1] = word end
local function leave(key, word)
  if redis.call('ZREM', key, id) > 0 then note(word) end
end

-- Leases come first: whether the run is held decides about the rest.
local own = run[2] and id .. '#' .. run[2]
local stray = ARGV[6] ~= '' and ARGV[6] ~= run[2] and id .. '#' .. ARGV[6]
local is_stray = stray and redis.call('ZSCORE', k.leases, stray)
local is_held = state == 'none' and is_stray
if state == 'running' then
  local is_later = is_stray and tonumber(ARGV[6]) > fence
  if fence > 0 and not is_later and not redis.call('ZSCORE', k.leases, own) then
    redis.call('ZADD', k.leases, now, own)
    note('lease put back, ended')
  end
  if is_stray and not is_later and redis.call('ZREM', k.leases, stray) > 0 then note('earlier lease taken out') end
elseif state ~= 'none' then
  if own and redis.call('ZREM', k.leases, own) > 0 then note('lease taken out') end
  if is_stray and redis.call('ZREM', k.leases, stray) > 0 then note('lease taken out') end
end

local own_queue = string.match(run[4] or '', '^[^!+]*')
local executes = state == 'running' and own and redis.call('ZSCORE', k.leases, own)
for item = 1, #dues do
  local running = KEYS[18 + item * 2]
  if executes and ARGV[8 + item] == own_queue then
    if redis.call('ZADD', running, 'NX', now, id) > 0 then note('counted in its queue') end
  elseif redis.call('ZREM', running, id) > 0 then
    redis.call('PUBLISH', k.nudge, 'due')
    note('no longer counted in queue ' .. ARGV[8 + item])
  end
end

local due_in = {}
for _, due in ipairs(dues) do
  if redis.call('ZSCORE', due, id) then due_in[#due_in + 1] = due end
end
local is_waiting = redis.call('ZSCORE', k.waiting, id)
local queued_at
for _, name in ipairs(places) do
  if redis.call('ZSCORE', k.gates[name].queued, id) then queued_at = k.gates[name] end
end
if queued_at and (state ~= 'scheduled' or #due_in > 0) then
  stop_waiting(queued_at, id)
  tally(k.totals, 'waiting', -1)
  wake_gate(k.gates.wakes, queued_at, now)
  queued_at = nil
  note('no longer waiting at a gate')
end
if state == 'running' or is_over then
  for _, due in ipairs(due_in) do leave(due, 'no longer due') end
  due_in = {}
elseif #due_in > 1 then
  local kept = redis.call('ZSCORE', k.job_due, id) and k.job_due or due_in[1]
  for _, due in ipairs(due_in) do
    if due ~= kept then leave(due, 'due in one queue') end
  end
-- The lane that was read may be the job's former lane; the run executes from there all the same.
-- No run executes twice: a claim removes a run that is running or over from any lane.
elseif state == 'scheduled' and #due_in == 0 and not is_waiting and not queued_at and job[1] then
  redis.call('ZADD', k.job_due, now, id)
  nudge_if_head(k.nudge, k.job_due, id)
  due_in = {k.job_due}
  note('made due')
end
if ARGV[8] ~= '' and state == 'scheduled' and #due_in == 1 and job[2] ~= id
  and tonumber(redis.call('ZSCORE', due_in[1], id)) > tonumber(ARGV[8]) then
  redis.call('ZADD', due_in[1], ARGV[8], id)
  redis.call('ZADD', spread, 'XX', ARGV[8], id)
  if redis.call('HEXISTS', k.run, 'ready') == 1 then redis.call('HSET', k.run, 'ready', ARGV[8], 'waits_from', int(now)) end
  nudge_if_head(k.nudge, due_in[1], id)
  note('due in time')
end
if is_waiting and (state ~= 'scheduled' or #due_in > 0 or queued_at) then
  redis.call('ZREM', k.waiting, id)
  tally(k.totals, 'waiting', -1)
  note('no longer waiting')
end
if state ~= 'scheduled' or #due_in == 0 then leave(spread, 'no longer spread') end
if is_over or (state == 'none' and #due_in == 0 and not is_held) then
  if redis.call('HDEL', stops, id) > 0 then note('wish to stop it taken out') end
end

if is_over or state == 'none' and job[2] ~= id and job[3] ~= id then
  local behind, skipped = string.match(job[4] or '', '^(%S+) (%S+)$')
  local is_first_behind = skipped == id and redis.call('ZSCORE', k.open, behind)
  local taken_off = redis.call('ZREM', k.deadlines, id .. ' finish')
  if not is_first_behind then taken_off = taken_off + redis.call('ZREM', k.deadlines, id .. ' start') end
  if taken_off > 0 then note('no longer watched') end
end

if places[1] and (is_over or is_waiting and not queued_at) then
  redis.call('HDEL', k.run, 'places')
  leave_gates(k, id, places, 'left', now)
  note('places given up')
end

local function leave_dead()
  leave(k.dead, 'no dead letter')
  leave(k.job_dead, 'no dead letter of its job')
end
if is_over then
  local ended = whole(run[3], PARKED)
  if ended == 0 then ended = now end
  local function stand(key, word)
    if redis.call('ZADD', key, 'NX', ended, id) > 0 then note(word) end
  end
  if DEAD[state] then
    stand(k.dead, 'among the dead letters')
    stand(k.job_dead, 'among the dead letters of its job')
  else
    stand(k.history, 'in history')
    stand(k.job_history, 'in the history of its job')
    leave_dead()
  end
else
  leave(k.history, 'out of history')
  leave(k.job_history, 'out of the history of its job')
  leave_dead()
end

-- A manual run is in its list from its planting on; a regular run is open from its claim on.
local list = is_regular and k.open or k.manual
if (state == 'running' or state == 'scheduled' and not is_regular) and redis.call('ZADD', list, 'NX', ARGV[4], id) > 0 then
  note('opened')
end
if (is_over or (state == 'none' and not is_held)) and redis.call('ZSCORE', list, id) then
  release_blocked(k, id, now)
  note('closed')
  settle_job(k, id, ARGV[3], now)
end
if not reply[2] then return {'sound'} end
return reply
