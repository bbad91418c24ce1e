-- The ends of runs and attempts: final states, notices, deadlines, requests to stop.

-- The final states of a dead letter.
-- A script that can end a run in one of these states has the keys `dead` and `job_dead`.
local DEAD = {failed = true, timed_out = true, lost = true}

-- The final states of a run.
local ENDS = {succeeded = true, failed = true, timed_out = true, lost = true, cancelled = true, skipped = true}

-- The fields of a run's record that its notices contain.
local NOTICE_FIELDS = {'state', 'reason', 'attempt', 'due', 'first_start', 'started_at', 'finished_at', 'exit_code', 'signal', 'http_status', 'error', 'node', 'skipped_count', 'waiting_for', 'behind'}

-- The most notices that may wait for their runs.
local NOTICES = 10000

-- Counts a notice of the run `id` that gets no run of its own. The next notice of the same kind
-- reports the count.
-- The first suppressed notice of a kind also adds a `rest` notice, which reports the count if no
-- other notice follows. At most NOTICES `rest` notices wait.
local function suppress(k, kind, id, now)
  add_to_counter(k.counters, 'suppressed', 1)
  if redis.call('EXISTS', k.job) == 0 then return end
  add_to_counter(k.job, 'suppressed:' .. kind, 1)
  if kind ~= 'ping' and redis.call('HGET', k.job, 'suppressed:' .. kind) == '1' and redis.call('ZCARD', k.notices) < 2 * NOTICES then
    redis.call('ZADD', k.notices, now, cjson.encode({kind = kind, run = id, stamp = 'rest' .. int(now), at = int(now)}))
    count_change(k.nudge, 'notices', false)
  end
end

-- Adds a notice of the run `id`, whose record exists; any node then plans the notice's run
-- (plant_notice.lua). `stamp` distinguishes two events of one run.
-- The number of waiting notices is limited, because a Redis with full memory accepts the ends of
-- runs but no new runs.
local function add_notice(k, kind, id, stamp, now)
  if redis.call('ZCARD', k.notices) >= NOTICES then return suppress(k, kind, id, now) end
  local found = redis.call('HMGET', k.run, unpack(NOTICE_FIELDS))
  local notice = {kind = kind, run = id, stamp = stamp, at = int(now)}
  for at, field in ipairs(NOTICE_FIELDS) do
    if found[at] and found[at] ~= '' then notice[field] = found[at] end
  end
  redis.call('ZADD', k.notices, now, cjson.encode(notice))
  wake_nodes(k.nudge, 'notices', false)
end

-- Adds the deadlines of a run, from the limits in `notify` of its job. A run that has started gets
-- no `start` deadline. Nodes sleep until the first deadline, so a new first deadline is counted as a
-- change. `channel` is nil if the calling node looks at the deadlines next.
local function watch(deadlines, channel, id, due_ms, notify, has_started)
  local is_added = false
  for word, ms in string.gmatch(notify or '', '(%l+)=(%d+)') do
    if word == 'finish' or word == 'start' and not has_started then
      redis.call('ZADD', deadlines, int(tonumber(due_ms) + tonumber(ms)), id .. ' ' .. word)
      is_added = true
    end
  end
  if is_added and channel and string.find(redis.call('ZRANGE', deadlines, 0, 0)[1], id, 1, true) == 1 then
    count_change(channel, 'deadlines', false)
  end
end

-- Removes the deadlines of a run.
local function unwatch(deadlines, id) redis.call('ZREM', deadlines, id .. ' start', id .. ' finish') end

-- Removes the deadlines of a planned run that a change of its job replaced. The run gets new
-- deadlines if it is planned again.
local function unwatch_planned(k, id)
  unwatch(k.deadlines, id)
  if redis.call('HGET', k.job, 'watched') == id then redis.call('HDEL', k.job, 'watched') end
end

-- Removes the deadlines of the run that was skipped first behind `id`, which has ended.
local function unwatch_behind(k, id)
  local behind, skipped = string.match(redis.call('HGET', k.job, 'skipped_behind') or '', '^(%S+) (%S+)$')
  if behind ~= id then return end
  unwatch(k.deadlines, skipped)
  redis.call('HDEL', k.job, 'skipped_behind')
end

-- Adds the notices that a job asks for at the end of a run: `notify` names their kinds. A job is
-- failing from its first dead letter until a run of it succeeds.
-- If a journal restored the end, `k.given` is the time before which ends were already reported. An
-- earlier end causes no notice, and does not change whether the job is failing if a later run has
-- ended.
local function notify_end(k, id, state, reason, now)
  local notify = redis.call('HGET', k.job, 'notify')
  if not notify or notify == '' then return end
  local is_new = not k.given or now >= k.given
  local function wants(kind) return is_new and string.find(notify, kind, 1, true) end
  local is_latest = true
  if DEAD[state] or state == 'succeeded' then
    is_latest = not k.given or now >= whole(redis.call('HGET', k.job, 'judged_at'), PARKED)
    if is_latest then redis.call('HSET', k.job, 'judged_at', int(now)) end
  end
  local stamp = redis.call('HGET', k.run, 'fence') or state
  -- A cancelled run sends a ping only if it had begun, because only a begun run sent a start ping.
  -- A replaced run sends no ping, because the run that replaced it does.
  local is_cut_short = state == 'cancelled' and stamp ~= state and reason ~= 'replaced'
  if wants('ping') and (DEAD[state] or state == 'succeeded' or is_cut_short) then add_notice(k, 'ping', id, stamp, now) end
  if DEAD[state] then
    if is_latest then redis.call('HSET', k.job, 'failing', '1') end
    if wants('on_failure') then add_notice(k, 'on_failure', id, stamp, now) end
  elseif state == 'succeeded' then
    local has_recovered = is_latest and redis.call('HDEL', k.job, 'failing') == 1
    if has_recovered and wants('on_recovered') then add_notice(k, 'on_recovered', id, stamp, now) end
    if wants('on_success') then add_notice(k, 'on_success', id, stamp, now) end
  elseif state == 'skipped' and reason == 'missed' and wants('on_late') then
    add_notice(k, 'on_late', id, 'start', now)
  end
end

-- The fields of a run's record that the end of a parent contains.
local CHAIN_FIELDS = {'exit_code', 'skipped_to', 'skipped_count'}

-- Returns the links in `chains` from a job to its children and former children. `most` limits their
-- number; -1 means all.
local function child_links(chains, name, most)
  return redis.call('ZRANGEBYLEX', chains, '[' .. name .. ' ', '(' .. name .. '!', 'LIMIT', 0, most)
end

-- Adds the end of a run to `chain_ends`, once for each child of its job. Any node then gives the
-- end to the child (plant_child.lua). A former child gets the end if the occurrence began while it
-- was a child. An occurrence begins with the first end of the root's run.
-- A rerun is no part of a chain, nor is a manual run of a job that has parents itself. A regular run
-- of such a job always is, also if a journal restored its end and its record names no parents.
-- The number of entries is not limited, because each of them may be the end for which a child
-- waits. The configuration limits the children of a job.
local function note_chain_end(k, id, state, reason, now)
  local links = child_links(k.chains, string.match(id, '^[^@]*'), -1)
  if not links[1] or string.find(id, '~rerun%w%w%w%w%w%w$') then return end
  local run = redis.call('HMGET', k.run, 'parents', 'retried_at', 'planted_again', 'chain_since', unpack(CHAIN_FIELDS))
  local is_by_hand = string.find(id, '~', 1, true) and not string.find(id, '~backfill', 1, true)
  if is_by_hand and not run[1] and (redis.call('HGET', k.job, 'after') or '') ~= '' then return end
  local since = run[4] and whole(run[4], PARKED) or now
  if not run[4] then redis.call('HSET', k.run, 'chain_since', int(since)) end
  local ended = {run = id, state = state, reason = reason, at = int(now), since = int(since)}
  -- A child whose record is gone got an earlier end of this run before.
  if run[2] or run[3] then ended.again = '1' end
  for at, field in ipairs(CHAIN_FIELDS) do
    local value = run[at + 4]
    if value and value ~= '' then ended[field] = value end
  end
  local given = {}
  for _, link in ipairs(links) do
    local child, before = string.match(link, '^%S+ (%S+) ?(%d*)$')
    if child and not given[child] and (before == '' or is_changed_since(before, since, now)) then
      given[child], ended.child = true, child
      redis.call('ZADD', k.chain_ends, now, cjson.encode(ended))
    end
  end
  wake_nodes(k.nudge, 'chains', false)
end

-- Writes a run's final state and adds the run to the history. `facts` is a list of field, value.
local function end_run(k, id, state, reason, now, facts)
  if DEAD[state] then
    redis.call('ZADD', k.dead, now, id)
    redis.call('ZADD', k.job_dead, now, id)
  end
  redis.call('ZADD', k.history, now, id)
  redis.call('ZADD', k.job_history, now, id)
  redis.call('HSET', k.run, 'state', state, 'reason', reason, 'finished_at', int(now), unpack(facts))
  add_to_counter(k.counters, state, 1)
  -- The deadline for the end may be a year ahead, so it is removed now.
  unwatch(k.deadlines, id)
  unwatch_behind(k, id)
  if k.notices then notify_end(k, id, state, reason, now) end
  note_chain_end(k, id, state, reason, now)
end

-- Returns the value for `stop_requests`: the reason to stop a run, with the user who asked for it
-- if known.
local function stop_request(reason, by)
  if by == '' then return reason end
  return reason .. ' by ' .. by
end

-- Returns the reason in a value of `stop_requests`, and the user who asked for the stop or ''.
local function parse_stop_request(request)
  local reason, by = string.match(request, '^(.-) by (.+)$')
  return reason or request, by or ''
end

-- Stores the record of an earlier attempt with its run. The records of the last PAST attempts are
-- kept.
local PAST = 20
local function keep_past(run_key, attempt, record)
  redis.call('HSET', run_key, 'past:' .. attempt, record)
  redis.call('HDEL', run_key, 'past:' .. (attempt - PAST))
end

-- Stores the record of a start that was cut short, one a line. The newest PAST lines are kept. The
-- attempt starts again with the same number.
local function keep_cut(run_key, attempt, record)
  local field = 'cut:' .. attempt
  local lines = {}
  for line in string.gmatch((redis.call('HGET', run_key, field) or '') .. '\n' .. record, '[^\n]+') do lines[#lines + 1] = line end
  local first = math.max(#lines - PAST, 0) + 1
  redis.call('HSET', run_key, field, table.concat(lines, '\n', first))
  redis.call('HDEL', run_key, 'cut:' .. (attempt - PAST))
end

-- Returns true if a run with this attempt number, which is not running now, has ever executed. The
-- number of claims does not show this, because a claim that only ran a done_check, or was handed
-- back at once, executed nothing.
local function has_executed(run_key, attempt)
  return attempt > 0 or redis.call('HEXISTS', run_key, 'cut:1') == 1
end
