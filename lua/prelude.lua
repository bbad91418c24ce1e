-- What every script starts with: one reading of the clock, types before writes, and the steps several scripts share.
-- Numbers past 14 digits are written with int(), because Lua 5.1 turns them into text with 14.

-- The score in `jobs` of a job that has no next due time: the first instant past what a schedule may name.
local PARKED = 4102444800000

-- The most a count may be, so that it is a u32 for whoever reads it; and the last fence.
local COUNT, FENCE = 2147483646, 9007199254740991

-- Entries kept in quarantine at most.
local QUARANTINE = 10000

local function int(number) return string.format('%.0f', number) end

-- The whole number `text` is, 0 if it is none or beyond `most`: a spoilt field must not stop a script between two writes.
local function whole(text, most)
  local number = math.floor(tonumber(text or '') or 0)
  if number >= 0 and number <= most then return number end
  return 0
end

-- Milliseconds and microseconds of Redis' own clock, or of the time a test gives. Called once a script.
local function clock(given)
  if given ~= '' then return tonumber(given), tonumber(given) * 1000 end
  local time = redis.call('TIME')
  local micros = tonumber(time[1]) * 1000000 + tonumber(time[2])
  return math.floor(micros / 1000), micros
end

-- A reply naming the first of `keys` (pairs of key, type) that holds something else; nil if all are well or absent.
local function wrong_type(keys)
  for at = 1, #keys, 2 do
    local found = redis.call('TYPE', keys[at]).ok
    if found ~= 'none' and found ~= keys[at + 1] then return {'wrong_type', keys[at], found, keys[at + 1]} end
  end
end

-- Wakes the pollers if `id`, just put into `due`, is now its head: something earlier than they sleep for.
local function nudge_if_head(channel, due, id)
  if redis.call('ZRANGE', due, 0, 0)[1] == id then redis.call('PUBLISH', channel, 'due') end
end

-- A lane is in use: nodes look at those written down, and are told of a new one. A queue's plain lane they know by the queue.
local function note_lane(lanes, channel, lane, now)
  if not string.find(lane, '[!~+]') then return end
  if redis.call('ZADD', lanes, now, lane) == 1 then redis.call('PUBLISH', channel, 'lanes') end
end

-- Counts `by` more of `word`. A counter that is spoilt or lost begins anew: it must not stop what it counts.
local function tally(totals, word, by)
  local total = redis.pcall('HINCRBY', totals, word, by)
  if type(total) == 'table' or total < 0 then redis.call('HSET', totals, word, math.max(by, 0)) end
end

-- Makes `id` the job's one planted regular run, ready at `ready`; '' leaves the job without one.
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

-- Whether a successor may be planted: never over an occurrence that already has a record.
local function is_planted_before(id, run_key)
  return id ~= '' and redis.call('EXISTS', run_key) == 1
end

-- The states of a dead letter: a script that can end a run so has the keys `dead` and `job_dead`.
local DEAD = {failed = true, timed_out = true, lost = true}

-- The states of a run that is over.
local ENDS = {succeeded = true, failed = true, timed_out = true, lost = true, cancelled = true, skipped = true}

-- What is kept of a run in a notice of it.
local TOLD = {'state', 'reason', 'attempt', 'due', 'started_at', 'finished_at', 'exit_code', 'signal', 'http_status', 'error', 'node', 'skipped_count', 'waiting_for', 'behind'}

-- Notices that wait to be planted, at most.
local NOTICES = 10000

-- Counts a notice, of the run `id`, that nobody is told of by itself: the next one of its kind that is planted says how many there
-- were. The first of them leaves one that tells of them when no other is, of which there are as many again at most.
local function suppress(k, kind, id, now)
  tally(k.totals, 'suppressed', 1)
  if redis.call('EXISTS', k.job) == 0 then return end
  tally(k.job, 'suppressed:' .. kind, 1)
  if kind ~= 'ping' and redis.call('HGET', k.job, 'suppressed:' .. kind) == '1' and redis.call('ZCARD', k.notices) < 2 * NOTICES then
    redis.call('ZADD', k.notices, now, cjson.encode({kind = kind, run = id, stamp = 'rest' .. int(now), at = int(now)}))
  end
end

-- Notes that people are to be told of the run, whose record stands: any node makes a run of it (plant_notice.lua). `stamp` tells two
-- things that befell one run apart. What writes ends is not refused when memory is full, and planting is: so many wait, not more.
local function tell(k, kind, id, stamp, now)
  if redis.call('ZCARD', k.notices) >= NOTICES then return suppress(k, kind, id, now) end
  local found = redis.call('HMGET', k.run, unpack(TOLD))
  local notice = {kind = kind, run = id, stamp = stamp, at = int(now)}
  for at, field in ipairs(TOLD) do
    if found[at] and found[at] ~= '' then notice[field] = found[at] end
  end
  redis.call('ZADD', k.notices, now, cjson.encode(notice))
  redis.call('PUBLISH', k.nudge, 'told')
end

-- Has the nodes look at a run when it is to have started, unless it has, and when it is to have ended, as `tells` of its job says.
local function watch(deadlines, id, due_ms, tells, has_started)
  for word, ms in string.gmatch(tells or '', '(%l+)=(%d+)') do
    if word == 'finish' or word == 'start' and not has_started then
      redis.call('ZADD', deadlines, int(tonumber(due_ms) + tonumber(ms)), id .. ' ' .. word)
    end
  end
end

-- Stops the nodes from looking whether a run starts and ends in time.
local function unwatch(deadlines, id) redis.call('ZREM', deadlines, id .. ' start', id .. ' finish') end

-- Stops that for a planned run that gives way. Planned again, the run is watched anew.
local function unwatch_planned(k, id)
  unwatch(k.deadlines, id)
  if redis.call('HGET', k.job, 'watched') == id then redis.call('HDEL', k.job, 'watched') end
end

-- Stops that for the run that was skipped first behind `id`, which is no longer open.
local function unwatch_behind(k, id)
  local behind, skipped = string.match(redis.call('HGET', k.job, 'skipped_behind') or '', '^(%S+) (%S+)$')
  if behind ~= id then return end
  unwatch(k.deadlines, skipped)
  redis.call('HDEL', k.job, 'skipped_behind')
end

-- Tells of the end of a run whom its job wants told: `tells` names the kinds. A job is failing from its first dead letter on, until
-- a run of it succeeds. Of an end that a journal gave back (`k.given`: from when on such are told) an older one is not told again,
-- and says nothing of a job that ended later.
local function tell_end(k, id, state, reason, now)
  local tells = redis.call('HGET', k.job, 'tells')
  if not tells or tells == '' then return end
  local is_news = not k.given or now >= k.given
  local function wants(kind) return is_news and string.find(tells, kind, 1, true) end
  local is_latest = true
  if DEAD[state] or state == 'succeeded' then
    is_latest = not k.given or now >= whole(redis.call('HGET', k.job, 'judged_at'), PARKED)
    if is_latest then redis.call('HSET', k.job, 'judged_at', int(now)) end
  end
  local stamp = redis.call('HGET', k.run, 'fence') or state
  -- Of one that never began nothing was pinged; one that gave way to the next has that pinged instead.
  local is_cut_short = state == 'cancelled' and stamp ~= state and reason ~= 'replaced'
  if wants('ping') and (DEAD[state] or state == 'succeeded' or is_cut_short) then tell(k, 'ping', id, stamp, now) end
  if DEAD[state] then
    if is_latest then redis.call('HSET', k.job, 'failing', '1') end
    if wants('on_failure') then tell(k, 'on_failure', id, stamp, now) end
  elseif state == 'succeeded' then
    local has_recovered = is_latest and redis.call('HDEL', k.job, 'failing') == 1
    if has_recovered and wants('on_recovered') then tell(k, 'on_recovered', id, stamp, now) end
    if wants('on_success') then tell(k, 'on_success', id, stamp, now) end
  elseif state == 'skipped' and reason == 'missed' and wants('on_late') then
    tell(k, 'on_late', id, 'start', now)
  end
end

-- Writes a run's final state and puts it into history. `facts` is a list of field, value.
local function end_run(k, id, state, reason, now, facts)
  if DEAD[state] then
    redis.call('ZADD', k.dead, now, id)
    redis.call('ZADD', k.job_dead, now, id)
  end
  redis.call('ZADD', k.history, now, id)
  redis.call('ZADD', k.job_history, now, id)
  redis.call('HSET', k.run, 'state', state, 'reason', reason, 'finished_at', int(now), unpack(facts))
  tally(k.totals, state, 1)
  -- A time by which it is to have ended may be a year away.
  unwatch(k.deadlines, id)
  unwatch_behind(k, id)
  if k.notices then tell_end(k, id, state, reason, now) end
end

-- What of a job's definition tells which occurrences it has, and the most bytes of that a stretch keeps.
local TIMING = {'at', 'every', 'delay', 'cron', 'calendar', 'rrule', 'dtstart', 'schedules', 'tz', 'dst', 'anchor', 'start', 'end',
  'exclude', 'only_on'}
local COUNTED_BY = 1024

-- That part of a definition, as a definition whose action is never done; nil if it is too long. No env, header or command is in it.
local function timing_of(definition)
  local is_read, all = pcall(cjson.decode, definition)
  if not is_read or type(all) ~= 'table' then return nil end
  local timing = {shell = ':'}
  for _, key in ipairs(TIMING) do timing[key] = all[key] end
  local text = cjson.encode(timing)
  return #text <= COUNTED_BY and text or nil
end

-- The facts of a stretch of occurrences that is told as skipped in one record, with what it was counted by: one of them whose run a
-- journal gives back is taken out of it. `told` lets whoever gives back see that it came.
local function tell_stretch(job_key, last, count, facts)
  facts[#facts + 1], facts[#facts + 2] = 'skipped_to', last
  facts[#facts + 1], facts[#facts + 2] = 'skipped_count', count
  local job = redis.call('HMGET', job_key, 'def', 'tz', 'anchor', 'since', 'dealt')
  -- Behind its first occurrence a stretch counts none that was dealt with before the job's planned run was moved.
  for time in string.gmatch(job[5] or '', '%d+') do
    local dealt = whole(time, PARKED)
    if dealt < tonumber(last) and dealt > whole(job[4], PARKED) then job[4] = int(dealt) end
  end
  job[1] = tonumber(count) > 1 and timing_of(job[1] or '')
  if job[1] then
    for at, field in ipairs({'of_def', 'of_tz', 'of_anchor', 'of_since'}) do
      facts[#facts + 1], facts[#facts + 2] = field, job[at] or ''
    end
  end
  redis.call('HSET', job_key, 'told', int(whole(redis.call('HGET', job_key, 'told'), COUNT - 1) + 1))
  return facts
end

-- Notes by which schedule the occurrences of a job came until `last`, before it gets another one or its occurrences count anew: what
-- the ledger holds of them is told apart by that. One that only goes on is noted once. Of so many the newest are kept.
local ERAS = 100
local function note_era(eras, job_key, last, now)
  local job = redis.call('HMGET', job_key, 'def', 'tz', 'anchor', 'since')
  local era = {from = whole(job[4], PARKED), to = last, def = timing_of(job[1] or ''), tz = job[2] or '', anchor = whole(job[3], PARKED)}
  local newest = redis.call('ZRANGE', eras, -1, -1)[1]
  local is_read, before = pcall(cjson.decode, newest or '')
  local goes_on = is_read and type(before) == 'table' and era.def and before.def == era.def and before.tz == era.tz
    and before.anchor == era.anchor and before.to == era.from and tonumber(before.from)
  if goes_on then era.from = before.from end
  local text = cjson.encode(era)
  redis.call('ZADD', eras, now, text)
  if goes_on and text ~= newest then redis.call('ZREM', eras, newest) end
  redis.call('ZREMRANGEBYRANK', eras, 0, -ERAS - 1)
end

-- The lane the job has now, if that is another than `read`, the one its reader saw: what the end of a run brings on lies there.
local function moved_to(k, read)
  local lane = redis.call('HGET', k.job, 'queue')
  if lane and lane ~= read then return lane end
end

-- What the end of `id` means for its job. A one-shot whose run is over, and which has no other planned, is over itself: it
-- leaves `list` and frees its name. A job with a delay is planted anew, so long after this end, if nothing of it is planned or
-- open: it has one pending or one open run, never two.
local function settle_job(k, id, job_name, now)
  if redis.call('ZCARD', k.open) > 0 or redis.call('ZCARD', k.waiting) > 0 then return end
  local job = redis.call('HMGET', k.job, 'once', 'pending', 'held', 'ended', 'rev', 'delay', 'paused', 'begun', 'max_runs')
  if job[2] ~= '' or job[3] or job[4] or not job[5] then return end
  if job[1] == '1' then
    redis.call('ZADD', k.finished, now, job_name)
    redis.call('HSET', k.job, 'ended', 'finished', 'ended_at', int(now))
    redis.call('ZREM', k.jobs, job_name)
    return
  end
  local delay = whole(job[6], PARKED)
  if delay == 0 or job[7] or whole(job[8], COUNT) >= (tonumber(job[9]) or math.huge) then return end
  -- Later than the run that ended, so that no id comes twice, also if that one was cancelled in the moment it was planted.
  local due = math.max(now + delay, whole(string.match(id, '@(%d+)'), PARKED) + 1)
  if due < PARKED then plant_pending(k, job_name, job_name .. '@' .. int(due), int(due), int(due)) end
end

-- The first of the runs that wait becomes ready. A regular one is open from now on, so that no later run overtakes it and
-- its job is not taken for done.
local function free_first_waiting(k, now)
  local first = redis.call('ZRANGE', k.waiting, 0, 0, 'WITHSCORES')
  if first[1] then
    redis.call('ZADD', k.job_due, now, first[1])
    if not string.find(first[1], '~', 1, true) then redis.call('ZADD', k.open, first[2], first[1]) end
    redis.call('ZREM', k.waiting, first[1])
    tally(k.totals, 'waiting', -1)
    redis.call('PUBLISH', k.nudge, 'due')
  end
end

-- Whether a run whose record names the job's rev `rev` belongs to an earlier job of this name. `since` is the first rev of this job.
local function is_former(rev, since)
  return rev and since and whole(rev, FENCE) < whole(since, FENCE)
end

-- Whether a run was asked for by hand, or planted for a boot, a backfill or a notice: only such ids have a `~`.
local function is_manual(id) return string.find(id, '~', 1, true) ~= nil end

-- How many manual runs of a job are due, execute or wait at a gate: the end of each frees the first run that waits.
local function manual_runs_out(k)
  local count = redis.call('ZCARD', k.manual)
  if count == 0 then return 0 end
  for _, id in ipairs(redis.call('ZRANGE', k.waiting, 0, 999)) do
    if is_manual(id) then count = count - 1 end
  end
  return count
end

-- Takes a run that is over off its job's list of open or manual runs. With no regular run open any more, the first waiting run gets its turn.
local function release_blocked(k, id, now)
  redis.call('ZREM', is_manual(id) and k.manual or k.open, id)
  if redis.call('ZCARD', k.open) == 0 then free_first_waiting(k, now) end
end

-- Why a run is asked to stop, as it stands in `stops`: the reason, with whose wish it is behind it where that is known.
local function wish_of(reason, by)
  if by == '' then return reason end
  return reason .. ' by ' .. by
end

-- The reason of such a wish, and whose it is, or ''.
local function parts_of_wish(wish)
  local reason, by = string.match(wish, '^(.-) by (.+)$')
  return reason or wish, by or ''
end

-- Notes what was done to a job and by whom; of so many deeds only the newest ones are kept. `facts` are texts beside.
local DEEDS = 100
local function note_deed(deeds, now, what, by, facts)
  facts.at, facts.what = now, what
  if by ~= '' then facts.by = by end
  redis.call('ZADD', deeds, now, cjson.encode(facts))
  redis.call('ZREMRANGEBYRANK', deeds, 0, -DEEDS - 1)
end

-- Writes down which jobs one is not to run beside. What runs already when such a rule begins holds no place at the gate for it.
local function set_shunned(shunned, lately, job, job_name, text)
  local old = redis.call('HGET', job, 'not_while') or ''
  if old == text then return end
  local named = {}
  for other in string.gmatch(text, '%S+') do named[other] = true end
  for other in string.gmatch(old, '%S+') do
    if not named[other] then
      redis.call('ZREM', shunned, other .. ' ' .. job_name)
      redis.call('ZREM', lately, other .. ' ' .. job_name)
    end
  end
  for other in pairs(named) do
    if redis.call('ZADD', shunned, 0, other .. ' ' .. job_name) == 1 then redis.call('ZADD', lately, 0, other .. ' ' .. job_name) end
  end
  redis.call('HSET', job, 'not_while', text)
end

-- Lists a job with the first gate its runs have to pass, as `LANE GATE JOB`, so that it is found behind runs of other gates; '' takes
-- it off.
local function set_gated(gated, job, text)
  local old = redis.call('HGET', job, 'gated') or ''
  if text ~= '' then
    redis.call('ZADD', gated, 0, text)
    redis.call('HSET', job, 'gated', text)
  end
  if old == text or old == '' then return end
  redis.call('ZREM', gated, old)
  if text == '' then redis.call('HDEL', job, 'gated') end
end

-- Keeps an earlier attempt's record beside its run: of so many attempts only the last ones.
local PAST = 20
local function keep_past(run_key, attempt, record)
  redis.call('HSET', run_key, 'past:' .. attempt, record)
  redis.call('HDEL', run_key, 'past:' .. (attempt - PAST))
end

-- Keeps the record of a start that was cut short beside its run, one a line: the attempt keeps its number, and is made anew.
local function keep_cut(run_key, attempt, record)
  local field = 'cut:' .. attempt
  local lines = {}
  for line in string.gmatch((redis.call('HGET', run_key, field) or '') .. '\n' .. record, '[^\n]+') do lines[#lines + 1] = line end
  local first = math.max(#lines - PAST, 0) + 1
  redis.call('HSET', run_key, field, table.concat(lines, '\n', first))
  redis.call('HDEL', run_key, 'cut:' .. (attempt - PAST))
end

-- Whether a run that is at this attempt now, and is not running, was ever executed: by its claims that cannot be told, for one that
-- was asked about or handed back at once executed nothing.
local function has_executed(run_key, attempt)
  return attempt > 0 or redis.call('HEXISTS', run_key, 'cut:1') == 1
end

-- The most a queue's limit, rate or burst may be, and how long its rate may take, in ms.
local POOL, LONGEST_RATE = 1000000, 86400000
-- A clock that was set back by more is not waited for, in microseconds.
local SET_BACK = 60000000

-- How many more runs a rate lets begin, and what it stands at: `tat`, the microsecond up to which time is taken up, and the part
-- of the next one in runs' shares. With none it also tells the microsecond from which on there is one. Exact: nothing is rounded
-- that would add up.
local function rate_room(state, count, per, burst, micros)
  local stood = redis.call('HMGET', state, 'tat', 'part', 'at')
  local tat, part, at = whole(stood[1], FENCE), whole(stood[2], POOL), whole(stood[3], FENCE)
  -- After a change of the rate no more is owed than a whole burst of it was when the last run began.
  local most = at + math.ceil(burst * per / count)
  if tat > most then tat, part = most, 0 end
  if tat < micros or at > micros + SET_BACK then tat, part = micros, 0 end
  if part >= count then part = count - 1 end
  local room = math.floor((burst * per - (tat - micros) * count - part) / per)
  if room > 0 then return room, nil, tat, part end
  return 0, math.max(tat + math.ceil((part + per - burst * per) / count), micros + 1), tat, part
end

-- How many more runs of a queue may begin: `room`, nil for any number. With none also `why`, and `at`, the microsecond from
-- which on there is one, where time alone tells. `take` notes that so many have begun.
local function room_in(queue, running, state, micros)
  local set = redis.call('HMGET', queue, 'paused', 'limit', 'rate_count', 'rate_ms', 'burst')
  local room, why, at = nil, nil, nil
  if set[1] then return {room = 0, why = 'paused'} end
  local limit = whole(set[2], POOL)
  if limit > 0 then
    room = math.max(limit - redis.call('ZCARD', running), 0)
    if room == 0 then why = 'full' end
  end
  local count, per = whole(set[3], POOL), whole(set[4], LONGEST_RATE) * 1000
  if count == 0 or per == 0 then return {room = room, why = why} end
  local burst = whole(set[5], POOL)
  if burst == 0 then burst = count end
  local rated, opens, tat, part = rate_room(state, count, per, burst, micros)
  if rated == 0 and room ~= 0 then why, at = 'rate', opens end
  room = math.min(room or rated, rated)
  return {room = room, why = why, at = at, take = function(taken)
    local total = part + taken * per
    redis.call('HSET', state, 'tat', int(tat + math.floor(total / count)), 'part', int(total % count), 'at', int(micros))
  end}
end

-- `id` no longer runs in its queue. If that was at its limit, the nodes are woken for the place: nobody polls for it.
local function leave_queue(k, id)
  if redis.call('ZREM', k.running, id) == 0 then return end
  local limit = whole(redis.call('HGET', k.queue, 'limit'), POOL)
  if limit > 0 and redis.call('ZCARD', k.running) == limit - 1 then redis.call('PUBLISH', k.nudge, 'due') end
end
