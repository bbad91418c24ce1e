#!lua flags=allow-oom
-- Ends the successful attempts of plain runs of one queue, with the effects that finish_run.lua
-- would have.
-- A plain run has no place at a gate, no request to stop it and no run that waits for it; its job
-- has no notices and no children. The caller sends every other run to finish_run.lua.
-- Guard: the lease is in the set under this fence; the run's record has the same fence and has not
-- ended.
-- A repeated call ends nothing, because the leases are gone; finish_run.lua then answers.
-- Keys: leases:any, jobs, stop_requests:any, history, finished, counters, nudge, deadlines:any,
--   running (of this queue), queue:any (its settings), chains:any
-- Keys of each item: run, job, open, waiting, job_history
-- Args: now
-- Args of each item: id, job_name, fence, reason, facts (of the attempt, as a JSON list of field,
--   value)
-- Reply finished: for each run the number of its job's runs in history, or -1 if the run is not
--   plain
-- Reply wrong_type: key, found, wanted. A wrong type of another key raises an error before the first
--   write; finish_run.lua then answers.

-- Each number that Lua or Redis turns into a text costs time, so this text is made once.
local now_text = int(now)
local runs, members, of_waiting = {}, {}, {}
for at = 1, item_count do
  runs[at] = item(at)
  members[at], of_waiting[at] = runs[at].id .. '#' .. runs[at].fence, runs[at].waiting
end
local is_any_waiting = redis.call('EXISTS', unpack(of_waiting)) > 0
local leases = redis.call('ZMSCORE', k.leases, unpack(members))
local has_stop_requests = redis.call('HLEN', k.stop_requests) > 0
local has_chains = redis.call('ZCARD', k.chains) > 0
local has_deadlines = redis.call('ZCARD', k.deadlines) > 0
local limit = whole(redis.call('HGET', k.queue, 'limit'), POOL)

-- Returns the number of runs in the history of a job, the number of its open runs, and true if the
-- job is a one-shot that ends with the last of them; nil if the run is not plain.
local function plain_run(k)
  local run = redis.pcall('HMGET', k.run, 'fence', 'state', 'places')
  if run[1] ~= k.fence or run[2] ~= 'running' or (run[3] or '') ~= '' then return end
  if has_stop_requests and redis.call('HEXISTS', k.stop_requests, k.id) == 1 then return end
  if has_chains and child_links(k.chains, k.job_name, 1)[1] then return end
  local job = redis.pcall('HMGET', k.job, 'rev', 'delay', 'notify', 'skipped_behind', 'once', 'pending', 'paused_run', 'ended')
  if not job[1] or (job[2] or '') ~= '' or (job[3] or '') ~= '' or job[4] then return end
  if is_any_waiting and redis.call('EXISTS', k.waiting) == 1 then return end
  local open, kept = redis.pcall('ZCARD', k.open), redis.pcall('ZCARD', k.job_history)
  if type(open) ~= 'number' or type(kept) ~= 'number' then return end
  return kept, open, job[5] == '1' and job[6] == '' and not job[7] and not job[8]
end

local reply, ended, gone, of_history, of_deadlines, of_finished, no_jobs = {'finished'}, {}, {}, {}, {}, {}, {}
for at, k in ipairs(runs) do
  local kept, open, ends_job
  if leases[at] then kept, open, ends_job = plain_run(k) end
  reply[at + 1] = -1
  if kept then
    reply[at + 1] = kept + redis.call('ZADD', k.job_history, now_text, k.id)
    redis.call('HSET', k.run, 'state', 'succeeded', 'reason', k.reason, 'finished_at', now_text, 'verdict_fence', k.fence,
      'verdict', 'succeeded', unpack(cjson.decode(k.facts)))
    if open - redis.call('ZREM', k.open, k.id) == 0 and ends_job then
      redis.call('HSET', k.job, 'ended', 'finished', 'ended_at', now_text)
      no_jobs[#no_jobs + 1] = k.job_name
      of_finished[#of_finished + 1], of_finished[#of_finished + 2] = now_text, no_jobs[#no_jobs]
    end
    ended[#ended + 1], gone[#gone + 1] = k.id, members[at]
    of_history[#of_history + 1], of_history[#of_history + 2] = now_text, k.id
    if has_deadlines then of_deadlines[#of_deadlines + 1], of_deadlines[#of_deadlines + 2] = k.id .. ' start', k.id .. ' finish' end
  end
end
if not ended[1] then return reply end

redis.call('ZADD', k.history, unpack(of_history))
add_to_counter(k.counters, 'succeeded', #ended)
if has_deadlines then redis.call('ZREM', k.deadlines, unpack(of_deadlines)) end
if no_jobs[1] then
  redis.call('ZADD', k.finished, unpack(of_finished))
  redis.call('ZREM', k.jobs, unpack(no_jobs))
end
redis.call('ZREM', k.leases, unpack(gone))
-- The nodes do not poll for room, so they are woken if the queue was at its limit.
local left = redis.call('ZREM', k.running, unpack(ended))
local rest = limit > 0 and redis.call('ZCARD', k.running) or limit
if rest < limit and rest + left >= limit then wake_nodes(k.nudge, 'due', false) end
return reply
