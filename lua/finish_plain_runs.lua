#!lua flags=allow-oom
-- Ends the successful attempts of plain runs of one queue, with the effects that finish_run.lua
-- would have.
-- A plain run has no place at a gate, no request to stop it and no run that waits for it; its job
-- has no notices. The caller sends every other run to finish_run.lua.
-- Guard: the lease is in the set under this fence; the run's record has the same fence and has not
-- ended.
-- A repeated call ends nothing, because the leases are gone; finish_run.lua then answers.
-- KEYS 1 leases
-- KEYS 2 jobs
-- KEYS 3 stop_requests
-- KEYS 4 history
-- KEYS 5 finished
-- KEYS 6 counters
-- KEYS 7 nudge
-- KEYS 8 deadlines
-- KEYS 9 running: of this queue
-- KEYS 10 queue: its settings
-- KEYS* run
-- KEYS* job
-- KEYS* open
-- KEYS* waiting
-- KEYS* job_history
-- ARGV 1 now
-- ARGV* id
-- ARGV* fence
-- ARGV* reason
-- ARGV* facts: of the attempt, as a JSON list of field, value
-- Reply finished: for each run the number of its job's runs in history, or -1 if the run is not
--   plain
-- Reply wrong_type: key, found, wanted
local now = clock(ARGV[1])
local leases, running = KEYS[1], KEYS[9]
local bad = wrong_type({leases, 'zset', KEYS[2], 'zset', KEYS[3], 'hash', KEYS[4], 'zset', KEYS[5], 'zset', KEYS[6], 'hash',
  KEYS[8], 'zset', running, 'zset', KEYS[10], 'hash'})
if bad then return bad end

local count = (#KEYS - 10) / 5
local members = {}
for at = 1, count do members[at] = ARGV[at * 4 - 2] .. '#' .. ARGV[at * 4 - 1] end
local ends = redis.call('ZMSCORE', leases, unpack(members))
local has_stop_requests = redis.call('EXISTS', KEYS[3]) == 1

-- Returns the number of runs in the history of a job, and the job's fields `once`, `pending`,
-- `paused_run` and `ended`; nil if the run number `at` is not plain.
local function plain_run(at)
  local key, id = 6 + at * 5, ARGV[at * 4 - 2]
  local run = redis.pcall('HMGET', KEYS[key], 'fence', 'state', 'places')
  if run[1] ~= ARGV[at * 4 - 1] or run[2] ~= 'running' or (run[3] or '') ~= '' then return end
  if has_stop_requests and redis.call('HEXISTS', KEYS[3], id) == 1 then return end
  local job = redis.pcall('HMGET', KEYS[key + 1], 'rev', 'delay', 'notify', 'skipped_behind', 'once', 'pending', 'paused_run', 'ended')
  if not job[1] or (job[2] or '') ~= '' or (job[3] or '') ~= '' or job[4] then return end
  if redis.pcall('ZCARD', KEYS[key + 3]) ~= 0 or type(redis.pcall('ZCARD', KEYS[key + 2])) ~= 'number' then return end
  local kept = redis.pcall('ZCARD', KEYS[key + 4])
  if type(kept) == 'number' then return kept, job[5], job[6], job[7], job[8] end
end

local reply, ended, gone, of_history, of_deadlines, of_finished, no_jobs = {'finished'}, {}, {}, {}, {}, {}, {}
for at = 1, count do
  local kept, once, pending, paused_run, has_ended
  if ends[at] then kept, once, pending, paused_run, has_ended = plain_run(at) end
  reply[at + 1] = -1
  if kept then
    local key, arg, id = 6 + at * 5, at * 4 - 2, ARGV[at * 4 - 2]
    reply[at + 1] = kept + redis.call('ZADD', KEYS[key + 4], int(now), id)
    redis.call('HSET', KEYS[key], 'state', 'succeeded', 'reason', ARGV[arg + 2], 'finished_at', int(now),
      'verdict_fence', ARGV[arg + 1], 'verdict', 'succeeded', unpack(cjson.decode(ARGV[arg + 3])))
    redis.call('ZREM', KEYS[key + 2], id)
    if once == '1' and pending == '' and not paused_run and not has_ended and redis.call('ZCARD', KEYS[key + 2]) == 0 then
      local job_name = string.match(id, '^(.*)@')
      redis.call('HSET', KEYS[key + 1], 'ended', 'finished', 'ended_at', int(now))
      of_finished[#of_finished + 1], of_finished[#of_finished + 2] = int(now), job_name
      no_jobs[#no_jobs + 1] = job_name
    end
    ended[#ended + 1], gone[#gone + 1] = id, members[at]
    of_history[#of_history + 1], of_history[#of_history + 2] = int(now), id
    of_deadlines[#of_deadlines + 1], of_deadlines[#of_deadlines + 2] = id .. ' start', id .. ' finish'
  end
end
if not ended[1] then return reply end

redis.call('ZADD', KEYS[4], unpack(of_history))
add_to_counter(KEYS[6], 'succeeded', #ended)
redis.call('ZREM', KEYS[8], unpack(of_deadlines))
if no_jobs[1] then
  redis.call('ZADD', KEYS[5], unpack(of_finished))
  redis.call('ZREM', KEYS[2], unpack(no_jobs))
end
redis.call('ZREM', leases, unpack(gone))
-- The nodes do not poll for room, so they are woken if the queue was at its limit.
local left = redis.call('ZREM', running, unpack(ended))
local limit = whole(redis.call('HGET', KEYS[10], 'limit'), POOL)
local rest = limit > 0 and redis.call('ZCARD', running) or limit
if rest < limit and rest + left >= limit then wake_nodes(KEYS[7], 'due') end
return reply
