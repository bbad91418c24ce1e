#!lua flags=allow-oom
-- Deletes the records of ended runs whose retention is over, or only removes the runs from history.
-- The same step adds the end of a regular run to its job's ledger, so that each occurrence stays
-- recorded.
-- Guard: the run's state is final; a run that has not ended only leaves the indexes.
-- A run restored by a journal is kept while it is still ahead in its job's schedule. The planning
-- of later runs reads its record. At most 100 runs a call.
-- Keys: history, dead, counters
-- Keys of each item: run, job, job_history, job_dead, ledger, ledger_before, audit_log, backfill
-- Args: now, request (the id of the operator's request, or ''; one request is one entry in the
--   audit log), by (the user who asks for the change, or '')
-- Args of each item: id, reach (record (delete the run); history (keep the record of a dead
--   letter); dead (delete the run if it still is a dead letter))
-- Reply forgotten: the number of runs
-- Reply wrong_type: key, found, wanted

-- The most bytes that a ledger range keeps of a reason.
local REASON = 200

local function leave(index, id)
  if redis.call('TYPE', index).ok == 'zset' then redis.call('ZREM', index, id) end
end

-- Returns a job's ledger, read once a call. A job without a record keeps no ledger; nothing is
-- added to a ledger whose keys have a wrong type.
local ledgers = {}
local function ledger_of(k)
  local ledger = ledgers[k.ledger]
  if not ledger then
    ledger = {key = k.ledger, before = k.ledger_before, is_kept = redis.call('EXISTS', k.job) == 1,
      has_wrong_type = wrong_type({k.ledger, 'zset', k.ledger_before, 'hash'})}
    if ledger.is_kept and not ledger.has_wrong_type then ledger.latest = whole(redis.call('HGET', k.ledger_before, 'latest'), PARKED) end
    ledgers[k.ledger] = ledger
  end
  return ledger
end

-- Returns the range that begins last.
local function last_of(ledger)
  if not ledger.last then
    local found = redis.call('ZRANGE', ledger.key, -1, -1, 'WITHSCORES')
    ledger.last = range_of(found[1], found[2])
  end
  return ledger.last
end

-- Removes the oldest range of a ledger. Its occurrences are only counted from then on.
local function drop_oldest(ledger)
  local popped = redis.call('ZPOPMIN', ledger.key)
  local oldest = range_of(popped[1], popped[2])
  if oldest then
    add_to_counter(ledger.before, oldest.state, oldest.count)
    local before = whole(redis.call('HGET', ledger.before, 'until'), PARKED)
    redis.call('HSET', ledger.before, 'until', int(math.max(before, oldest.to)))
  end
  add_to_counter(k.counters, 'ledger_ranges', -1)
  add_to_counter(k.counters, 'trimmed_ranges', 1)
  ledger.last = nil
end

-- Adds an ended run to the ledger: to the last range if possible, otherwise as a new range.
-- The last range grows only past the end of every other range, and only with occurrences that ended
-- the same way. So it does not grow past a kept dead letter, or past the run behind which its next
-- run was skipped.
-- A run that ended out of order gets its own range; the narrowest range that contains a time
-- decides.
-- Other runs near a restored run may be lost, so a restored run joins only the range of the
-- occurrence it follows. `latest` then lies past the end of that range, so that no other run joins
-- the range.
local function add_to_ledger(k, range)
  local ledger = ledger_of(k)
  if not ledger.is_kept then return end
  if ledger.has_wrong_type then return add_to_counter(k.counters, 'unledgered', range.count) end
  local last = last_of(ledger)
  local is_last, is_restored_last = last and last.to == ledger.latest, last and last.to + 1 == ledger.latest
  local goes_on = is_last
  if range.restored then goes_on = (is_last or is_restored_last) and last.to == range.follows end
  local is_alike = last and last.state == range.state and last.reason == range.reason
  if goes_on and is_alike and range.from > last.to and range.behind <= last.to then
    local old = member_of(last)
    last.to, last.count = range.to, last.count + range.count
    redis.call('ZADD', ledger.key, last.from, member_of(last))
    redis.call('ZREM', ledger.key, old)
  else
    add_range(ledger.key, k.counters, range)
    ledger.last = nil
  end
  local latest = range.restored and range.to + 1 or range.to
  if latest > ledger.latest then
    ledger.latest = latest
    redis.call('HSET', ledger.before, 'latest', int(latest))
  end
  if redis.call('ZCARD', ledger.key) > RANGES then drop_oldest(ledger) end
end

-- Keeps the last range from growing past a dead letter with a kept record, because that record says
-- how its occurrence ended.
local function close_last_range(k, id)
  local ledger, due = ledger_of(k), whole(string.match(id, '@(%d+)$'), PARKED)
  if not ledger.is_kept or ledger.has_wrong_type or due <= ledger.latest then return end
  ledger.latest = due
  redis.call('HSET', ledger.before, 'latest', int(due))
end

-- Returns the reason of an end, without the note about the journal that restored it.
local function reason_of(reason, restored)
  if not restored then return reason end
  for _, pattern in ipairs({'restored by the journal of .*$', 'the journal of %S+ shows that the run started$'}) do
    reason = string.gsub(reason, ';? ?' .. pattern, '')
  end
  return reason
end

-- Returns the due time of a job's planned run, or of the run that a pause keeps; false if the job
-- has none.
local planned_of = {}
local function planned_at(k)
  if planned_of[k.job] == nil then
    local job = redis.call('TYPE', k.job).ok == 'hash' and redis.call('HMGET', k.job, 'pending', 'paused_run') or {}
    local due_of = function(id) return tonumber(string.match(id or '', '@(%d+)$')) end
    planned_of[k.job] = due_of(job[1]) or due_of(job[2]) or false
  end
  return planned_of[k.job]
end

-- Returns true if this run is still ahead in the schedule or the backfill of its job.
local function is_to_come(k, id)
  if string.match(id, '~backfill$') then
    return redis.call('TYPE', k.backfill).ok == 'zset' and redis.call('ZSCORE', k.backfill, id)
  end
  local due = tonumber(string.match(id, '@(%d+)$'))
  local planned = due and planned_at(k)
  return planned and planned < due
end

-- Deletes a run's record if the run has ended. Returns the number of deleted records.
local function delete(k, id)
  if redis.call('TYPE', k.run).ok ~= 'hash' then return 0 end
  local run = redis.call('HMGET', k.run, 'state', 'reason', 'skipped_to', 'skipped_count', 'restored', 'follows', 'behind')
  if run[1] == 'scheduled' or run[1] == 'running' then return 0 end
  local due = string.match(id, '@(%d+)$')
  if due then
    local from = whole(due, PARKED)
    -- At a gate, `behind` names a run of another job.
    local is_overlap = run[1] == 'skipped' and run[2] == 'overlap'
    add_to_ledger(k, {from = from, to = math.max(whole(run[3], PARKED), from), count = math.max(whole(run[4], FENCE), 1),
      state = string.match(run[1] or '', '^%l[%l_]*$') or 'unknown', reason = string.sub(reason_of(run[2] or '', run[5]), 1, REASON),
      restored = run[5], follows = whole(run[6], PARKED),
      behind = is_overlap and whole(string.match(run[7] or '', '@(%d+)$'), PARKED) or 0})
  end
  redis.call('DEL', k.run)
  return 1
end

-- Records how many dead letters of a job a request deleted. All calls of a request share one entry
-- in the audit log.
local function note_purged(k, purged)
  if redis.call('EXISTS', k.job) == 0 or wrong_type({k.audit_log, 'zset'}) then return end
  local count, run = purged.count, purged.run
  local newest = redis.call('ZRANGE', k.audit_log, -1, -1)[1]
  local is_read, entry = pcall(cjson.decode, newest or '')
  if is_read and type(entry) == 'table' and entry.request == request then
    count, run = count + (tonumber(entry.count) or 0), nil
    redis.call('ZREM', k.audit_log, newest)
  end
  note_change(k.audit_log, now, 'dead letters purged', by, {count = count, run = count == 1 and run or nil, request = request})
end

local forgotten, deleted, purged_of = 0, 0, {}
for at = 1, item_count do
  local k = item(at)
  local id, reach = k.id, k.reach
  local is_dead = redis.call('ZSCORE', k.dead, id)
  if (is_dead or reach ~= 'dead') and not is_to_come(k, id) then
    if reach ~= 'history' or not is_dead then
      deleted = deleted + delete(k, id)
      redis.call('ZREM', k.dead, id)
      leave(k.job_dead, id)
    else
      close_last_range(k, id)
    end
    redis.call('ZREM', k.history, id)
    leave(k.job_history, id)
    forgotten = forgotten + 1
    local purged = purged_of[k.job] or {k = k, count = 0, run = id}
    purged.count = purged.count + 1
    purged_of[k.job] = purged
  end
end
if deleted > 0 then add_to_counter(k.counters, 'trimmed_runs', deleted) end
if request ~= '' then
  for _, purged in pairs(purged_of) do note_purged(purged.k, purged) end
end
return {'forgotten', forgotten}
