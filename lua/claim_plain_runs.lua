#!lua flags=allow-oom
-- Claims the plain runs at the head of a list of due runs of one lane, with the effects that
-- claim_runs.lua would have.
-- A plain run is the planned run of its job, has no record, and meets no rule but those of its
-- queue. The call stops before the first other run; the caller sends the rest to claim_runs.lua.
-- Guard: the run is in the due set and ready; its job has the revision that the caller read, and no
-- open run.
-- A repeated call claims nothing, because the runs have records; claim_runs.lua then answers.
-- KEYS 1 due
-- KEYS 2 leases
-- KEYS 3 fence
-- KEYS 4 jobs
-- KEYS 5 stop_requests
-- KEYS 6 nudge
-- KEYS 7 running: of this queue
-- KEYS 8 queue: its settings
-- KEYS 9 queue_state
-- KEYS 10 not_while
-- KEYS* run
-- KEYS* job
-- KEYS* open
-- KEYS* successor_run
-- ARGV 1 now
-- ARGV 2 node
-- ARGV 3 incarnation
-- ARGV 4 token: the name of this call, by which claim_runs.lua recognises a repeated call
-- ARGV 5 lease_ms
-- ARGV 6 lane
-- ARGV 7 slots: the most runs to claim
-- ARGV* id
-- ARGV* rev
-- ARGV* delivery: at-most-once, or '' for at-least-once
-- ARGV* latest_start: the time after which the run would be skipped, or ''
-- ARGV* successor: the id of a run, or ''
-- ARGV* successor_ready
-- Reply claimed: now, lease end, then the fence of each claimed run
-- Reply wrong_type: key, found, wanted
local now, micros = clock(ARGV[1])
local due, leases, fence_key, jobs, running = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[7]
local bad = wrong_type({due, 'zset', leases, 'zset', fence_key, 'string', jobs, 'zset', KEYS[5], 'hash', running, 'zset',
  KEYS[8], 'hash', KEYS[9], 'hash', KEYS[10], 'zset'})
if bad then return bad end

local lease_end = now + tonumber(ARGV[5])
local count = (#KEYS - 10) / 4
local stored = redis.call('GET', fence_key)
local fence = whole(stored, FENCE)
local queue = queue_capacity(KEYS[8], running, KEYS[9], micros)
local most = math.min(count, tonumber(ARGV[7]), queue.capacity or count)
-- Only claim_runs.lua rebuilds a corrupt fence counter, or starts it again after the last fence.
if stored and fence == 0 or fence + count >= FENCE then most = 0 end
if most <= 0 then return {'claimed', now, lease_end} end
fence = math.max(fence, micros - 1)
local has_stop_requests = redis.call('EXISTS', KEYS[5]) == 1
local has_not_while = redis.call('EXISTS', KEYS[10]) == 1

local ids = {}
for at = 1, most do ids[at] = ARGV[2 + at * 6] end
local ready = redis.call('ZMSCORE', due, unpack(ids))

-- Returns the ready time of the run number `at`, its due time, its job's name and the number of
-- started runs of its job; nil if the run is not plain.
local function plain_run(at)
  local key, arg = 7 + at * 4, 2 + at * 6
  local id, score = ids[at], tonumber(ready[at] or '')
  if not score or score > now or redis.call('EXISTS', KEYS[key]) == 1 then return end
  if has_stop_requests and redis.call('HEXISTS', KEYS[5], id) == 1 then return end
  local latest = ARGV[arg + 3]
  if latest ~= '' and now > tonumber(latest) then return end
  local job = redis.pcall('HMGET', KEYS[key + 1], 'rev', 'pending', 'ended', 'paused', 'notify', 'started_count')
  if job[1] ~= ARGV[arg + 1] or job[2] ~= id or job[3] or job[4] or (job[5] or '') ~= '' then return end
  if redis.pcall('ZCARD', KEYS[key + 2]) ~= 0 or is_planted_before(ARGV[arg + 4], KEYS[key + 3]) then return end
  local job_name, due_ms = string.match(id, '^(.*)@(%d+)$')
  if has_not_while and redis.call('ZRANGEBYLEX', KEYS[10], '[' .. job_name .. ' ', '(' .. job_name .. '!', 'LIMIT', 0, 1)[1] then return end
  return score, due_ms, job_name, whole(job[6], COUNT - 1)
end

local claimed, reply = {}, {'claimed', now, lease_end}
local of_leases, of_running, of_jobs, of_due, is_planted = {}, {}, {}, {}, {}
for at = 1, most do
  local score, due_ms, job_name, started = plain_run(at)
  if not score then break end
  local key, arg, id = 7 + at * 4, 2 + at * 6, ids[at]
  local delivery, successor = ARGV[arg + 2], ARGV[arg + 4]
  fence = fence + 1
  local facts = {}
  if score ~= tonumber(due_ms) then facts = {'ready_at', int(score)} end
  if delivery ~= '' then facts[#facts + 1], facts[#facts + 2] = 'delivery', delivery end
  redis.call('HSET', KEYS[key], 'job', job_name, 'due', due_ms, 'queue', ARGV[6], 'kind', 'regular', 'rev', ARGV[arg + 1],
    'state', 'running', 'attempt', 1, 'fence', int(fence), 'claim', ARGV[4], 'node', ARGV[2], 'incarnation', ARGV[3],
    'lease_ms', ARGV[5], 'lease_end', int(lease_end), 'started_at', int(now), 'reason', '', 'claimed_before', 0, unpack(facts))
  redis.call('ZADD', KEYS[key + 2], due_ms, id)
  redis.call('HSET', KEYS[key + 1], 'pending', successor, 'started_count', started + 1)
  claimed[at], reply[#reply + 1] = id, int(fence)
  of_leases[#of_leases + 1], of_leases[#of_leases + 2] = int(lease_end), id .. '#' .. int(fence)
  of_running[#of_running + 1], of_running[#of_running + 2] = int(now), id
  of_jobs[#of_jobs + 1], of_jobs[#of_jobs + 2] = string.match(successor, '@(%d+)$') or PARKED, job_name
  if successor ~= '' then
    of_due[#of_due + 1], of_due[#of_due + 2], is_planted[successor] = ARGV[arg + 5], successor, true
  end
end
if not claimed[1] then return reply end

redis.call('SET', fence_key, int(fence))
redis.call('ZADD', leases, unpack(of_leases))
redis.call('ZADD', running, unpack(of_running))
redis.call('ZADD', jobs, unpack(of_jobs))
if of_due[1] then redis.call('ZADD', due, unpack(of_due)) end
if queue.take then queue.take(#claimed) end
if of_due[1] and is_planted[redis.call('ZRANGE', due, 0, 0)[1]] then wake_nodes(KEYS[6], 'due') end
redis.call('ZREM', due, unpack(claimed))
return reply
