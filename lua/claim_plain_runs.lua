#!lua flags=allow-oom
-- Claims the plain runs at the head of a list of due runs of one lane, with the effects that
-- claim_runs.lua would have.
-- A plain run is the planned run of its job, has no record, and meets no rule but those of its
-- queue. The call stops before the first other run; the caller sends the rest to claim_runs.lua.
-- A run that another node claimed first is passed over.
-- Guard: the run is in the due set and ready; its job has the revision that the caller read, and no
-- open run.
-- A repeated call of the node with the same token replies with the same fences.
-- Keys: due:any, leases, fence:any, jobs, stop_requests:any, nudge, running (of this queue),
--   queue:any (its settings), queue_state, not_while:any
-- Keys of each item: run, job, open, successor_run
-- Args: now, node, incarnation, token (the name of this call, by which a repeated call is
--   recognised), lease_ms, lane, slots (the most runs to claim)
-- Args of each item: id, job_name, due_ms, rev, delivery (at-most-once, or '' for at-least-once),
--   latest_start (the time after which the run would be skipped, or ''), successor (the id of a
--   run, or ''), successor_due, successor_ready
-- Reply claimed: now, lease end, then for each run before the first other run its fence, or 0 if
--   another node claimed it first
-- Reply wrong_type: key, found, wanted. A wrong type of another key raises an error before the first
--   write; claim_runs.lua then answers.

local lease_end = now + tonumber(lease_ms)
-- Each number that Lua or Redis turns into a text costs time, so these texts are made once.
local now_text, lease_end_text, parked_text = int(now), int(lease_end), int(PARKED)
local stored = redis.call('GET', k.fence)
local fence = whole(stored, FENCE)
local room = queue_capacity(k, micros)
local most = math.min(tonumber(slots), room.capacity or item_count)
-- Only claim_runs.lua rebuilds a corrupt fence counter, or starts it again after the last fence.
if most <= 0 or stored and fence == 0 or fence + item_count >= FENCE then return {'claimed', now, lease_end} end
fence = math.max(fence, micros - 1)
local has_stop_requests = redis.call('HLEN', k.stop_requests) > 0
local has_not_while = redis.call('ZCARD', k.not_while) > 0

local runs, ids, of_open = {}, {}, {}
for at = 1, item_count do
  runs[at] = item(at)
  ids[at] = runs[at].id
  of_open[#of_open + 1], of_open[#of_open + 2] = runs[at].run, runs[at].open
end
local ready = redis.call('ZMSCORE', k.due, unpack(ids))
-- One call answers for nearly every batch, because the keys of a plain run are missing.
local is_any_open = redis.call('EXISTS', unpack(of_open)) > 0

-- Returns the fence of a run that is not due: 0, or the fence of its first attempt if an earlier
-- call of this node with this token claimed the run. Returns nil if the call claimed a later attempt.
local function fence_of_claimed(k)
  local run = redis.pcall('HMGET', k.run, 'state', 'claim', 'fence', 'attempt', 'claimed_before', 'incarnation')
  if run[1] ~= 'running' or run[2] ~= token or run[6] ~= incarnation then return '0' end
  if run[4] == '1' and run[5] == '0' then return run[3] end
end

local claimed, reply, of_leases, of_running, of_jobs, of_due, is_planted = {}, {'claimed', now, lease_end}, {}, {}, {}, {}, {}

-- Claims a run and returns its fence; returns nil if the run is not plain.
local function claim(k, ready)
  if tonumber(ready) > now or is_any_open and redis.call('EXISTS', k.run, k.open) > 0 then return end
  if has_stop_requests and redis.call('HEXISTS', k.stop_requests, k.id) == 1 then return end
  if k.latest_start ~= '' and now > tonumber(k.latest_start) then return end
  local job = redis.pcall('HMGET', k.job, 'rev', 'pending', 'ended', 'paused', 'notify', 'started_count', 'next_at')
  if job[1] ~= k.rev or job[2] ~= k.id or job[3] or job[4] or (job[5] or '') ~= '' or whole(job[7], PARKED) > now then return end
  if is_planted_before(k.successor, k.successor_run) then return end
  if has_not_while and redis.call('ZRANGEBYLEX', k.not_while, '[' .. defined_job(k.job_name) .. ' ', '(' .. defined_job(k.job_name) .. '!', 'LIMIT', 0, 1)[1] then return end
  fence = fence + 1
  local fence_text, facts = int(fence), {}
  if tonumber(ready) ~= tonumber(k.due_ms) then facts = {'ready_at', int(tonumber(ready))} end
  if k.delivery ~= '' then facts[#facts + 1], facts[#facts + 2] = 'delivery', k.delivery end
  redis.call('HSET', k.run, 'job', k.job_name, 'due', k.due_ms, 'queue', lane, 'kind', 'regular', 'rev', k.rev, 'state', 'running',
    'attempt', '1', 'fence', fence_text, 'claim', token, 'node', node, 'incarnation', incarnation, 'lease_ms', lease_ms,
    'lease_end', lease_end_text, 'started_at', now_text, 'reason', '', 'claimed_before', '0', unpack(facts))
  redis.call('ZADD', k.open, k.due_ms, k.id)
  redis.call('HSET', k.job, 'pending', k.successor, 'started_count', int(whole(job[6], COUNT - 1) + 1))
  claimed[#claimed + 1] = k.id
  of_leases[#of_leases + 1], of_leases[#of_leases + 2] = lease_end_text, k.id .. '#' .. fence_text
  of_running[#of_running + 1], of_running[#of_running + 2] = now_text, k.id
  of_jobs[#of_jobs + 1], of_jobs[#of_jobs + 2] = k.successor == '' and parked_text or k.successor_due, k.job_name
  if k.successor ~= '' then
    of_due[#of_due + 1], of_due[#of_due + 2], is_planted[k.successor] = k.successor_ready, k.successor, true
  end
  return fence_text
end

local won, is_named = 0, {}
for at, k in ipairs(runs) do
  -- claim_runs.lua answers for a job that is named twice.
  if won >= most or is_named[k.job_name] then break end
  is_named[k.job_name] = true
  local own = ready[at] and claim(k, ready[at]) or not ready[at] and fence_of_claimed(k)
  if not own then break end
  reply[at + 3] = own
  if own ~= '0' then won = won + 1 end
end
if not claimed[1] then return reply end

redis.call('SET', k.fence, int(fence))
redis.call('ZADD', k.leases, unpack(of_leases))
redis.call('ZADD', k.running, unpack(of_running))
redis.call('ZADD', k.jobs, unpack(of_jobs))
if of_due[1] then redis.call('ZADD', k.due, unpack(of_due)) end
if room.take then room.take(#claimed) end
if of_due[1] and is_planted[redis.call('ZRANGE', k.due, 0, 0)[1]] then wake_nodes(k.nudge, 'due', k.due) end
redis.call('ZREM', k.due, unpack(claimed))
return reply
