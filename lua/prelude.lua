-- The prelude of every script: the clock, the type checks, and the steps that several scripts
-- share.
-- A script reads the clock once, and checks the types of its keys before it writes.
-- Numbers of more than 14 digits are written with int(), because Lua 5.1 would round them to 14
-- digits.

-- The score in `jobs` of a job that has no next due time: the first instant (ms) past the range of
-- schedules.
local PARKED = 4102444800000

-- The largest count, so that Rust can read each count as a u32; and the largest fence.
local COUNT, FENCE = 2147483646, 9007199254740991

-- The most entries that the quarantine keeps.
local QUARANTINE = 10000

local function int(number) return string.format('%.0f', number) end

-- Returns `text` as a whole number, or 0 if it is not a number or is larger than `most`. A field
-- with a bad value must not stop a script between two writes.
local function whole(text, most)
  local number = math.floor(tonumber(text or '') or 0)
  if number >= 0 and number <= most then return number end
  return 0
end

-- The fields of a job's record for its definition. Redis stores a hash compactly only while no value
-- is longer than 64 bytes, so a definition of at most 1,024 bytes is divided into such pieces.
local PIECES = {'def', 'def1', 'def2', 'def3', 'def4', 'def5', 'def6', 'def7', 'def8', 'def9', 'def10', 'def11', 'def12', 'def13',
  'def14', 'def15', 'def16'}

-- Returns the fields for the definition `text` and their values. No character is divided.
local function definition_fields(text)
  if #text > 1024 then return {'def', text} end
  local fields, first = {}, 1
  for _, field in ipairs(PIECES) do
    local last = math.min(first + 63, #text)
    while last < #text and string.match(text, '^[\128-\191]', last + 1) do last = last - 1 end
    fields[#fields + 1], fields[#fields + 2], first = field, string.sub(text, first, last), last + 1
    if first > #text then return fields end
  end
end

-- Returns the definition in a job's record; '' if the record has none.
local function read_definition(job_key)
  local pieces, text = redis.call('HMGET', job_key, unpack(PIECES)), ''
  for _, piece in ipairs(pieces) do
    if not piece then break end
    text = text .. piece
  end
  return text
end

-- Replaces the definition in a job's record.
local function set_definition(job_key, text)
  redis.call('HDEL', job_key, unpack(PIECES))
  redis.call('HSET', job_key, unpack(definition_fields(text)))
end

-- Gives a job the revision `rev` instead of `read`. The fields `first_rev` and `same_since` of a
-- job's record are absent while they equal the present revision.
local function set_rev(job_key, read, rev)
  redis.call('HSETNX', job_key, 'first_rev', read)
  redis.call('HSETNX', job_key, 'same_since', read)
  redis.call('HSET', job_key, 'rev', rev)
end

-- Appends to `fields` the pairs of `more` whose values are not empty, and returns `fields`. A field of
-- a job's record with an empty value is absent.
local function add_filled(fields, more)
  for at = 1, #more, 2 do
    if more[at + 1] ~= '' then fields[#fields + 1], fields[#fields + 2] = more[at], more[at + 1] end
  end
  return fields
end

-- Returns the time of Redis in milliseconds and in microseconds, or the time `given` by a test. A
-- script calls this function once.
local function clock(given)
  if given ~= '' then return tonumber(given), tonumber(given) * 1000 end
  local time = redis.call('TIME')
  local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
  return math.floor(micros / 1000), micros
end

-- Returns the reply for the first key of a wrong type, or nil if every key is absent or has its
-- type.
-- `keys` is a list of pairs: key, type.
local function wrong_type(keys)
  for at = 1, #keys, 2 do
    local found = redis.call('TYPE', keys[at]).ok
    if found ~= 'none' and found ~= keys[at + 1] then return {'wrong_type', keys[at], found, keys[at + 1]} end
  end
end

-- The counters in the key of the nudges, each of 32 bits: what changed, and the place of its counter.
local CHANGES_COUNTED = {due = 0, lanes = 1, pools = 2, stop = 3, files = 4, notices = 5, jobs = 6, deadlines = 7}

-- Counts a change. Each node reads the counters once a second, so it also sees a change whose
-- message was lost, or that has no message. A key of another type must not stop the step that is
-- counted; nodes then read everything at each poll.
local function count_change(channel, word)
  redis.pcall('BITFIELD', channel, 'INCRBY', 'u32', '#' .. CHANGES_COUNTED[word], 1)
end

-- Wakes the nodes because of a change. The channel and the key with the counters have one name.
local function wake_nodes(channel, word)
  count_change(channel, word)
  redis.call('PUBLISH', channel, word)
end

-- Wakes the nodes if `id`, just added to `due`, is the first run there. They would otherwise sleep
-- until the ready time of the former first run.
local function nudge_if_head(channel, due, id)
  if redis.call('ZRANGE', due, 0, 0)[1] == id then wake_nodes(channel, 'due') end
end

-- Records that a lane is in use, and wakes the nodes if the lane is new. The plain lane of a queue
-- needs no record, because nodes know the lane by its queue.
local function note_lane(lanes, channel, lane, now)
  if not string.find(lane, '[!~+]') then return end
  if redis.call('ZADD', lanes, now, lane) == 1 then wake_nodes(channel, 'lanes') end
end

-- The most registered lanes. Nodes poll no others.
local LANES = 10000

-- Returns true if `lane` would be a new lane beyond the bound.
local function is_lane_refused(lanes, lane)
  return string.find(lane, '[!~+]') and redis.call('ZCARD', lanes) >= LANES and not redis.call('ZSCORE', lanes, lane)
end

-- Adds `by` to the counter `word`. A counter with a bad or negative value starts again at `by`,
-- because a bad counter must not stop the step that is counted.
local function add_to_counter(counters, word, by)
  local total = redis.pcall('HINCRBY', counters, word, by)
  if type(total) == 'table' or total < 0 then redis.call('HSET', counters, word, math.max(by, 0)) end
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

-- The final states of a dead letter.
-- A script that can end a run in one of these states has the keys `dead` and `job_dead`.
local DEAD = {failed = true, timed_out = true, lost = true}

-- The final states of a run.
local ENDS = {succeeded = true, failed = true, timed_out = true, lost = true, cancelled = true, skipped = true}

-- The fields of a run's record that its notices contain.
local NOTICE_FIELDS = {'state', 'reason', 'attempt', 'due', 'started_at', 'finished_at', 'exit_code', 'signal', 'http_status', 'error', 'node', 'skipped_count', 'waiting_for', 'behind'}

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
    count_change(k.nudge, 'notices')
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
  wake_nodes(k.nudge, 'notices')
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
    count_change(channel, 'deadlines')
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
end

-- The keys of a definition that decide its occurrences, and the most bytes of them that the record
-- of a skipped range keeps.
local TIMING = {'at', 'every', 'delay', 'cron', 'calendar', 'rrule', 'dtstart', 'schedules', 'tz', 'dst', 'anchor', 'start', 'end',
  'exclude', 'only_on'}
local COUNTED_BY = 1024

-- Returns those keys as a definition with a command that does nothing, or nil if the text is too
-- long. The definition has no env, header or command of the job.
local function timing_of(definition)
  local is_read, all = pcall(cjson.decode, definition)
  if not is_read or type(all) ~= 'table' then return nil end
  local timing = {shell = ':'}
  for _, key in ipairs(TIMING) do timing[key] = all[key] end
  local text = cjson.encode(timing)
  return #text <= COUNTED_BY and text or nil
end

-- Adds to `facts` the fields of a skipped range that one record keeps, and returns `facts`.
-- The fields include the schedule that counted the range. If a journal restores the run of one
-- occurrence, the range can then be reduced by that occurrence.
-- The job's `skipped_records` counts these records, so that a restore notices that another record
-- was written.
local function add_range_fields(job_key, last, count, facts)
  facts[#facts + 1], facts[#facts + 2] = 'skipped_to', last
  facts[#facts + 1], facts[#facts + 2] = 'skipped_count', count
  local job = redis.call('HMGET', job_key, 'rev', 'tz', 'anchor', 'since', 'handled')
  -- Occurrences that were handled before the planned run was moved to an earlier time are not
  -- counted again. Only the first occurrence of the range may be earlier than such a time.
  for time in string.gmatch(job[5] or '', '%d+') do
    local handled = whole(time, PARKED)
    if handled < tonumber(last) and handled > whole(job[4], PARKED) then job[4] = int(handled) end
  end
  job[1] = tonumber(count) > 1 and timing_of(read_definition(job_key))
  if job[1] then
    for at, field in ipairs({'of_def', 'of_tz', 'of_anchor', 'of_since'}) do
      facts[#facts + 1], facts[#facts + 2] = field, job[at] or ''
    end
  end
  redis.call('HSET', job_key, 'skipped_records', int(whole(redis.call('HGET', job_key, 'skipped_records'), COUNT - 1) + 1))
  return facts
end

-- Records the schedule that a job had until `last`. Scripts call this function before a job gets
-- another schedule, or before its occurrences count again. The consistency check compares the
-- ledger's entries of that time with this schedule.
-- A schedule that continues extends its newest entry. The newest VERSIONS entries are kept.
local VERSIONS = 100
local function note_schedule_version(schedule_versions, job_key, last, now)
  local job = redis.call('HMGET', job_key, 'tz', 'anchor', 'since')
  local version = {from = whole(job[3], PARKED), to = last, def = timing_of(read_definition(job_key)), tz = job[1] or '',
    anchor = whole(job[2], PARKED)}
  local newest = redis.call('ZRANGE', schedule_versions, -1, -1)[1]
  local is_read, before = pcall(cjson.decode, newest or '')
  local goes_on = is_read and type(before) == 'table' and version.def and before.def == version.def and before.tz == version.tz
    and before.anchor == version.anchor and before.to == version.from and tonumber(before.from)
  if goes_on then version.from = before.from end
  local text = cjson.encode(version)
  redis.call('ZADD', schedule_versions, now, text)
  if goes_on and text ~= newest then redis.call('ZREM', schedule_versions, newest) end
  redis.call('ZREMRANGEBYRANK', schedule_versions, 0, -VERSIONS - 1)
end

-- Returns the job's present lane if it differs from `read`, the lane that the caller read; else
-- nil. Runs that become due by the end of a run belong into the present lane.
local function changed_lane(k, read)
  local lane = redis.call('HGET', k.job, 'queue')
  if lane and lane ~= read then return lane end
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
    wake_nodes(k.nudge, 'due')
  end
end

-- Returns true if `rev`, the revision in a run's record, belongs to an earlier job of this name.
-- `since` is the first revision of the present job.
local function is_former(rev, since)
  return rev and since and whole(rev, FENCE) < whole(since, FENCE)
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

-- Adds an entry to a job's audit log. `facts` are further fields. The newest CHANGES entries are
-- kept.
local CHANGES = 100
local function note_change(audit_log, now, what, by, facts)
  facts.at, facts.what = now, what
  if by ~= '' then facts.by = by end
  redis.call('ZADD', audit_log, now, cjson.encode(facts))
  redis.call('ZREMRANGEBYRANK', audit_log, 0, -CHANGES - 1)
end

-- Records in `not_while` the jobs during whose runs a job must not run. A run that began before
-- such a rule has no place at the rule's gate, so `recent` lists the new rules.
local function set_not_while(not_while, recent, job, job_name, text)
  local old = redis.call('HGET', job, 'not_while') or ''
  if old == text then return end
  local named = {}
  for other in string.gmatch(text, '%S+') do named[other] = true end
  for other in string.gmatch(old, '%S+') do
    if not named[other] then
      redis.call('ZREM', not_while, other .. ' ' .. job_name)
      redis.call('ZREM', recent, other .. ' ' .. job_name)
    end
  end
  for other in pairs(named) do
    if redis.call('ZADD', not_while, 0, other .. ' ' .. job_name) == 1 then redis.call('ZADD', recent, 0, other .. ' ' .. job_name) end
  end
  redis.call('HSET', job, 'not_while', text)
end

-- Lists a job with the first gate that its runs have to pass, as `LANE GATE JOB`; '' removes the
-- entry. With this entry a node finds the job's runs behind runs of other gates.
local function set_gate_entry(job_gates, job, text)
  local old = redis.call('HGET', job, 'gate_entry') or ''
  if text ~= '' then
    redis.call('ZADD', job_gates, 0, text)
    redis.call('HSET', job, 'gate_entry', text)
  end
  if old == text or old == '' then return end
  redis.call('ZREM', job_gates, old)
  if text == '' then redis.call('HDEL', job, 'gate_entry') end
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

-- The largest limit, rate or burst of a queue; and the longest period of its rate, in ms.
local POOL, LONGEST_RATE = 1000000, 86400000
-- The largest step back of the clock after which a rate limit continues its count, in microseconds.
local SET_BACK = 60000000

-- Returns how many more runs a rate limit lets begin, and the state of the limit: `tat` and `part`.
-- If that number is 0, the second result is the time in microseconds at which the next run may
-- begin.
-- `tat` is the time in microseconds up to which begun runs have used the limit. `part` is the used
-- part of the next microsecond, in units of 1/count. The arithmetic is exact, so no rounding error
-- adds up.
local function rate_capacity(state, count, per, burst, micros)
  local stored = redis.call('HMGET', state, 'tat', 'part', 'at')
  local tat, part, at = whole(stored[1], FENCE), whole(stored[2], POOL), whole(stored[3], FENCE)
  -- After a change of the rate limit, the used time ends at most one whole burst of the new limit
  -- after the last begun run.
  local most = at + math.ceil(burst * per / count)
  if tat > most then tat, part = most, 0 end
  if tat < micros or at > micros + SET_BACK then tat, part = micros, 0 end
  if part >= count then part = count - 1 end
  local capacity = math.floor((burst * per - (tat - micros) * count - part) / per)
  if capacity > 0 then return capacity, nil, tat, part end
  return 0, math.max(tat + math.ceil((part + per - burst * per) / count), micros + 1), tat, part
end

-- Returns how many more runs of a queue may begin: `capacity`, or nil for any number. If `capacity`
-- is 0, `why` is the reason, and `at` is the time in microseconds at which the rate limit makes
-- room, or nil. `take` records that runs have begun.
local function queue_capacity(k, micros)
  local set = redis.call('HMGET', k.queue, 'paused', 'limit', 'rate_count', 'rate_ms', 'burst')
  local capacity, why, at = nil, nil, nil
  if set[1] then return {capacity = 0, why = 'paused'} end
  local limit = whole(set[2], POOL)
  if limit > 0 then
    capacity = math.max(limit - redis.call('ZCARD', k.running), 0)
    if capacity == 0 then why = 'full' end
  end
  local count, per = whole(set[3], POOL), whole(set[4], LONGEST_RATE) * 1000
  if count == 0 or per == 0 then return {capacity = capacity, why = why} end
  local burst = whole(set[5], POOL)
  if burst == 0 then burst = count end
  local rated, opens, tat, part = rate_capacity(k.queue_state, count, per, burst, micros)
  if rated == 0 and capacity ~= 0 then why, at = 'rate', opens end
  capacity = math.min(capacity or rated, rated)
  return {capacity = capacity, why = why, at = at, take = function(taken)
    local total = part + taken * per
    redis.call('HSET', k.queue_state, 'tat', int(tat + math.floor(total / count)), 'part', int(total % count), 'at', int(micros))
  end}
end

-- Removes `id` from the running runs of its queue. If the queue was at its limit, the nodes are
-- woken, because they do not poll for room.
local function leave_queue(k, id)
  if redis.call('ZREM', k.running, id) == 0 then return end
  local limit = whole(redis.call('HGET', k.queue, 'limit'), POOL)
  if limit > 0 and redis.call('ZCARD', k.running) == limit - 1 then wake_nodes(k.nudge, 'due') end
end
