-- The runs of a job that have not ended: planned, open, waiting and manual runs.

-- Returns the time before which no regular run of a job begins, because a run or an operator set it;
-- 0 if there is no such time. A time set in the future was set before the clock was set back, and is
-- ignored.
local function held_until(next_at, next_set_at, now)
  if whole(next_set_at, FENCE) > now then return 0 end
  return whole(next_at, PARKED)
end

-- Makes `id` the job's only planned regular run, ready at `ready` (ms). With '' the job has no
-- planned run.
local function plant_pending(k, job_name, id, due_ms, ready)
  if id == '' then
    redis.call('HSET', k.job, 'pending', '')
    redis.call('ZADD', k.jobs, PARKED, job_name)
    return
  end
  redis.call('ZADD', k.job_due, ready, id)
  redis.call('HSET', k.job, 'pending', id)
  redis.call('ZADD', k.jobs, due_ms, job_name)
  nudge_if_head(k.nudge, k.job_due, id)
end

-- Returns true if the successor `id` already has a record, which a planned run must not overwrite.
local function is_planted_before(id, run_key)
  return id ~= '' and redis.call('EXISTS', run_key) == 1
end

-- Applies the end of run `id` to its job.
-- A one-shot without another planned, open or waiting run ends too: it leaves `list` and frees its
-- name.
-- A job with a `delay` gets its next run, that long after this end, if it has no planned or open
-- run. So the job has one pending run or one open run, never both.
local function end_or_plan_job(k, id, job_name, now)
  if redis.call('ZCARD', k.open) > 0 or redis.call('ZCARD', k.waiting) > 0 then return end
  local job = redis.call('HMGET', k.job, 'once', 'pending', 'paused_run', 'ended', 'rev', 'delay', 'paused', 'started_count', 'max_runs')
  if job[2] ~= '' or job[3] or job[4] or not job[5] then return end
  if job[1] == '1' then
    redis.call('ZADD', k.finished, now, job_name)
    redis.call('HSET', k.job, 'ended', 'finished', 'ended_at', int(now))
    redis.call('ZREM', k.jobs, job_name)
    return
  end
  local delay = whole(job[6], PARKED)
  if delay == 0 or job[7] or whole(job[8], COUNT) >= (tonumber(job[9]) or math.huge) then return end
  -- The due time is later than that of the ended run, so that no run id is used twice. This also
  -- applies to a run that was cancelled as soon as it was planned.
  local due = math.max(now + delay, whole(string.match(id, '@(%d+)'), PARKED) + 1)
  if due < PARKED then plant_pending(k, job_name, job_name .. '@' .. int(due), int(due), int(due)) end
end

-- Makes the first waiting run ready. A regular run counts as open from now on: no later run may
-- overtake it, and its job has not ended.
local function free_first_waiting(k, now)
  local first = redis.call('ZRANGE', k.waiting, 0, 0, 'WITHSCORES')
  if first[1] then
    redis.call('ZADD', k.job_due, now, first[1])
    if not string.find(first[1], '~', 1, true) then redis.call('ZADD', k.open, first[2], first[1]) end
    redis.call('ZREM', k.waiting, first[1])
    add_to_counter(k.counters, 'waiting', -1)
    wake_nodes(k.nudge, 'due', k.job_due)
  end
end

-- Returns true for a run by hand, at boot, by backfill or of a notice. Only the ids of such runs
-- have a `~`.
local function is_manual(id) return string.find(id, '~', 1, true) ~= nil end

-- Returns the fields of a run's record and of its job that decide which indexes list the run. The
-- third result is true if the run was skipped first behind a run that is in `open`. The last result
-- is all of these as one text, by which a later call notices a change.
local function placed_by(run_key, job_key, open, id)
  local run = redis.call('HMGET', run_key, 'state', 'fence', 'queue', 'places', 'finished_at')
  local job = redis.call('HMGET', job_key, 'rev', 'queue', 'pending', 'paused_run', 'skipped_behind')
  local behind, skipped = string.match(job[5] or '', '^(%S+) (%S+)$')
  local is_first = skipped == id and redis.call('ZSCORE', open, behind) and true or false
  local seen = {tostring(is_first)}
  for at = 1, 5 do seen[#seen + 1] = (run[at] or '') .. '\n' .. (job[at] or '') end
  return run, job, is_first, table.concat(seen, '\n')
end

-- Returns how many manual runs of a job are due, running or waiting at a gate. The end of each such
-- run makes the first waiting run ready.
local function manual_runs_out(k)
  local count = redis.call('ZCARD', k.manual)
  if count == 0 then return 0 end
  for _, id in ipairs(redis.call('ZRANGE', k.waiting, 0, 999)) do
    if is_manual(id) then count = count - 1 end
  end
  return count
end

-- Removes an ended run from its job's list of open or manual runs.
-- If the job has no open run left, its first waiting run becomes ready.
local function release_blocked(k, id, now)
  redis.call('ZREM', is_manual(id) and k.manual or k.open, id)
  if redis.call('ZCARD', k.open) == 0 then free_first_waiting(k, now) end
end
