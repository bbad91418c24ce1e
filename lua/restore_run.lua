#!lua flags=allow-oom
-- Restores the end of a run from the journal of the node that ended the run, after Redis lost that
-- end. The run leaves all indexes of runs that have not ended. A skipped range or a ledger range
-- that counts the run is reduced by it. If the run was the job's planned run, the next run is
-- planned.
-- The job's revision rises, so that a caller about to record a skipped range reads the job again.
-- An occurrence older than the ledger's ranges was counted there with an unknown end. The end is
-- assumed to be `skipped`, so that count falls by one.
-- Guard: the data still has the epoch of the loss. Redis knows no later claim of the run, and no end
-- but one that another journal restored. Such an end is replaced by that of a later claim. A lost
-- end, which a journal without the end assumes, is replaced by the end of the same claim.
-- The revision is as given if the run is the planned run. The mark of the skipped ranges, the skipped
-- range, the ledger's range and the job's lane are as the caller read them.
-- Keys: run, job, jobs, due (of the run's lane), job_due (of the job's lane), leases, open,
--   waiting, stop_requests, history, job_history, finished, counters, nudge, dead, job_dead,
--   running, queue, notices, successor_run:any, catch_up, epoch, range_run (the record of the
--   skipped range that counts the run, else the run), rest_run (the record for the rest of that
--   range, else the run), ledger:any, ledger_before:any, manual, deadlines,
--   chains, chain_ends
-- Gates: the keys of the gates in the argument gates
-- Args: now, read (the epoch of the data to which the run is restored), id, job_name, due_ms, lane,
--   known (ended, or claimed (the run must not start again, and its end is unknown)), state,
--   reason, finished_at, fence, rev (of the job as the caller read it, or '' if the run is not its
--   planned run), successor (the id of a run, or ''), successor_due, successor_ready, gates (the
--   gates at which the run has places), ranges_mark (the mark of the job's skipped ranges, as the
--   caller read it), range_to (the last occurrence of the skipped range, or '' if no
--   range counts the run), range_count (the number of occurrences in that range, as the caller read
--   it), rest (the id of the first run in the rest of the range, or ''), rest_due, rest_to,
--   rest_count, job_lane (of the job as the caller read it, or '' if the job could not be read),
--   notified_before (ends before this time were reported before the loss), range
--   (FROM:TO:COUNT:STATE of the ledger's range that contains the run, as the caller read it, or
--   ''), left (the rest of that range without the run, FROM:TO:COUNT or ''; all, if the range does
--   not count the run; known, if the range counts the run with its end)
-- Args of each item: field (a fact of the run), value
-- Reply restored
-- Reply known: Redis knows this end, or a later state of the run
-- Reply stale: the job, or the range that counts the run as skipped, has changed
-- Reply occupied: the successor already has a record
-- Reply moved: epoch
-- Reply places: the gates at which the run has places; the caller must repeat the call with them
-- Reply wrong_type: key, found, wanted

local epoch = redis.call('GET', k.epoch) or ''
if epoch ~= read then return {'moved', epoch} end
local run = redis.call('HMGET', k.run, 'state', 'fence', 'verdict_fence', 'places', 'restored', 'chain_since', 'finished_at')
local last = whole(run[2], FENCE)
local is_regular = not is_manual(id)
-- The occurrence was recorded as skipped without a claim, but ran before Redis lost its data. A
-- manual run has no occurrence, so no range counts it.
local is_skipped = is_regular and run[1] == 'skipped' and not run[2]
local is_better = run[5] and run[2] and (last < tonumber(fence)
  or last == tonumber(fence) and run[1] == 'lost' and known == 'ended' and state ~= 'lost')
local is_replaced = is_better and ENDS[run[1]]
-- An operator retried a run if Redis knew its end and the run is scheduled again.
if run[1] and run[1] ~= 'scheduled' and run[1] ~= 'running' and not is_skipped and not is_replaced then return {'known'} end
if not is_replaced and (last > tonumber(fence) or run[3] == fence) then return {'known'} end
local member = id .. '#' .. fence
if known == 'claimed' and redis.call('ZSCORE', k.leases, member) then return {'known'} end
local job = redis.call('HMGET', k.job, 'rev', 'pending', 'paused_run', 'started_count', 'max_runs', 'ranges_mark')
local is_pending, is_paused_run = job[2] == id, job[3] == id
if is_pending or is_paused_run then
  if job[1] ~= rev then return {'stale'} end
  if is_planted_before(successor, k.successor_run) then return {'occupied', successor} end
end
local is_in_range = range_to ~= ''
local is_first = is_in_range and k.range_run == k.run
-- Runs that become due by this end belong into the job's lane. An entry of this run in a former
-- lane starts nothing, because a claim removes a run that has ended.
if job_lane ~= '' and changed_lane(k, job_lane) then return {'stale'} end
if is_regular and (job[6] or '') ~= ranges_mark then return {'stale'} end
-- The job's history no longer has this record, so it cannot be read as a skipped range.
if is_skipped and not is_in_range and not redis.call('ZSCORE', k.job_history, id) then return {'known'} end
if is_skipped ~= is_first then return {'stale'} end
if is_in_range then
  local found = redis.call('HMGET', k.range_run, 'state', 'skipped_to', 'skipped_count')
  if found[1] ~= 'skipped' or (found[2] or due_ms) ~= range_to or (found[3] or '1') ~= range_count then return {'stale'} end
  if is_first and rest ~= '' and redis.call('EXISTS', k.rest_run) == 1 then return {'stale'} end
end
-- An occurrence without a record that is not planned was counted in the ledger, or is unknown. A
-- ledger of a wrong type is ignored.
local ledger, before = k.ledger, k.ledger_before
local is_trimmed = is_regular and not run[1] and not is_pending and not is_paused_run
  and not wrong_type({ledger, 'zset', before, 'hash'})
local found_range = is_trimmed and range_at(ledger, tonumber(due_ms))
if is_trimmed and name_of(found_range) ~= range then return {'stale'} end
if found_range and left == 'known' then return {'known'} end
local gates_bad = missing_places(k.gates, run[4] or '')
if gates_bad then return gates_bad end
local places = gate_names(run[4])

local facts = {'job', job_name, 'due', due_ms, 'queue', lane, 'fence', fence, 'verdict_fence', fence, 'verdict', state,
  'kind', is_regular and 'regular' or 'manual', item_args()}
if is_in_range then
  if is_first and rest ~= '' then
    local ended = redis.call('ZSCORE', k.history, id) or now
    redis.call('HSET', k.rest_run, unpack(redis.call('HGETALL', k.run)))
    redis.call('HSET', k.rest_run, 'due', rest_due)
    redis.call('ZADD', k.history, ended, rest)
    redis.call('ZADD', k.job_history, ended, rest)
  end
  if rest ~= '' then redis.call('HSET', k.rest_run, 'skipped_to', rest_to, 'skipped_count', rest_count) end
  if is_first then redis.call('DEL', k.run) end
  add_to_counter(k.counters, 'skipped', -1)
end
if found_range and left ~= 'all' then
  shrink_range(ledger, k.counters, found_range, left)
  add_to_counter(k.counters, 'skipped', -1)
elseif is_trimmed and not is_in_range and not found_range and whole(redis.call('HGET', before, 'until'), PARKED) >= tonumber(due_ms) then
  local skipped = whole(redis.call('HGET', before, 'skipped'), FENCE)
  if skipped > 0 then
    redis.call('HSET', before, 'skipped', int(skipped - 1))
    add_to_counter(k.counters, 'skipped', -1)
  end
end
if is_replaced then
  -- The record has only what the other journal gave. Children got its end.
  redis.call('DEL', k.run)
  add_filled(facts, {'chain_since', run[6] or '', 'planted_again', run[6] and int(now) or ''})
  add_to_counter(k.counters, run[1], -1)
  redis.call('ZREM', k.dead, id)
  redis.call('ZREM', k.job_dead, id)
  -- The replaced end decided whether the job is failing, unless a later end did.
  if redis.call('HGET', k.job, 'judged_at') == run[7] then redis.call('HDEL', k.job, 'judged_at') end
end
k.given = tonumber(notified_before)
end_run(k, id, state, reason, math.min(tonumber(finished_at), now), facts)
-- The start that Redis lost also counts for max_runs.
local started = whole(job[4], COUNT)
if last == 0 and job[1] and is_regular then
  started = started + 1
  redis.call('HSET', k.job, 'started_count', started)
end
local is_reduced = is_in_range or found_range and left ~= 'all'
if job[1] and is_reduced then note_range_change(k.job, id) end
if job[1] and is_regular then set_rev(k.job, job[1], int(math.max(whole(job[1], FENCE - 1) + 1, micros))) end
local is_used_up = started >= (tonumber(job[5]) or math.huge)
if is_pending then
  plant_pending(k, job_name, is_used_up and '' or successor, successor_due, successor_ready)
elseif is_paused_run then
  if successor == '' then redis.call('HDEL', k.job, 'paused_run') else redis.call('HSET', k.job, 'paused_run', successor) end
end
if places[1] then redis.call('HDEL', k.run, 'places') end
leave_gates(k, id, places, 'ended', now)
redis.call('ZREM', k.due, id)
redis.call('ZREM', k.job_due, id)
redis.call('ZREM', k.catch_up, id)
redis.call('ZREM', k.leases, member, id .. '#' .. int(last))
leave_queue(k, id)
redis.call('HDEL', k.stop_requests, id)
if redis.call('ZREM', k.waiting, id) == 1 then add_to_counter(k.counters, 'waiting', -1) end
release_blocked(k, id, now)
end_or_plan_job(k, id, job_name, now)
return {'restored'}
