-- The records of jobs: the definition, the revision, the audit log and the earlier schedules.

-- The fields of a job's record for its definition. Redis stores a hash compactly only while no value
-- is longer than 64 bytes, so a definition of at most 1,024 bytes is divided into such pieces.
local PIECES = {'def', 'def1', 'def2', 'def3', 'def4', 'def5', 'def6', 'def7', 'def8', 'def9', 'def10', 'def11', 'def12', 'def13',
  'def14', 'def15', 'def16'}

-- Appends to `fields` the fields for the definition `text` and their values, and returns `fields`. No
-- character is divided.
local function add_definition(fields, text)
  if #text <= 64 or #text > 1024 then
    fields[#fields + 1], fields[#fields + 2] = 'def', text
    return fields
  end
  local first = 1
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
  redis.call('HSET', job_key, unpack(add_definition({}, text)))
end

-- Gives a job the revision `rev` instead of `read`. The fields `first_rev` and `same_since` of a
-- job's record are absent while they equal the present revision.
local function set_rev(job_key, read, rev)
  redis.call('HSETNX', job_key, 'first_rev', read)
  redis.call('HSETNX', job_key, 'same_since', read)
  redis.call('HSET', job_key, 'rev', rev)
end

-- Returns the job's present lane if it differs from `read`, the lane that the caller read; else
-- nil. Runs that become due by the end of a run belong into the present lane.
local function changed_lane(k, read)
  local lane = redis.call('HGET', k.job, 'queue')
  if lane and lane ~= read then return lane end
end

-- Returns true if `rev`, the revision in a run's record, belongs to an earlier job of this name.
-- `since` is the first revision of the present job.
local function is_former(rev, since)
  return rev and since and whole(rev, FENCE) < whole(since, FENCE)
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

-- Changes `ranges_mark`, the mark of a job's skipped ranges. A restore that read the ranges before this
-- change notices the other mark. The mark depends on all changes in their order, so that a node can
-- tell its own changes from those of others.
local function note_range_change(job_key, change)
  local mark = redis.call('HGET', job_key, 'ranges_mark') or ''
  redis.call('HSET', job_key, 'ranges_mark', redis.sha1hex(mark .. ' ' .. change))
end

-- Adds to `facts` the fields of a skipped range that one record keeps, and returns `facts`.
-- The fields include the schedule that counted the range. If a journal restores the run of one
-- occurrence, the range can then be reduced by that occurrence.
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
  note_range_change(job_key, last)
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

-- Adds an entry to a job's audit log, and publishes the entry for those who follow the events.
-- `facts` are further fields. The newest CHANGES entries are kept.
local CHANGES = 100
local function note_change(audit_log, now, what, by, facts)
  facts.at, facts.what = now, what
  if by ~= '' then facts.by = by end
  local text = cjson.encode(facts)
  redis.call('ZADD', audit_log, now, text)
  -- The channel is no key, so it needs no place in KEYS.
  local prefix, job_name = string.match(audit_log, '^(.*)audit_log:(.*)$')
  redis.pcall('SPUBLISH', prefix .. 'changes', job_name .. ' ' .. text)
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

-- Lists a job in `chains` with each of its parents, as `PARENT JOB`. `text` has the rule and the
-- parents; '' removes them.
-- Occurrences that began before this change keep the former parents. So the field `former_after` gets
-- a line `NOW TEXT` with the former text, and each former parent stays listed as `PARENT JOB NOW`. The
-- newest FORMER lines are kept. A parent with LINKS links gets no further former child.
local FORMER, LINKS = 20, 1000
local function set_parents(k, job_name, text, now)
  local record = redis.call('HMGET', k.job, 'after', 'former_after')
  local old = record[1] or ''
  local named = {}
  for parent in string.gmatch(string.match(text, ' .*$') or '', '%S+') do
    named[parent] = true
    redis.call('ZADD', k.chains, 0, parent .. ' ' .. job_name)
  end
  if text == old then return end
  local lines = {}
  for line in string.gmatch((record[2] or '') .. '\n' .. int(now) .. ' ' .. old, '[^\n]+') do lines[#lines + 1] = line end
  redis.call('HSET', k.job, 'former_after', table.concat(lines, '\n', math.max(#lines - FORMER, 0) + 1))
  for parent in string.gmatch(string.match(old, ' .*$') or '', '%S+') do
    if not named[parent] then
      if redis.call('ZLEXCOUNT', k.chains, '[' .. parent .. ' ', '(' .. parent .. '!') < LINKS then
        redis.call('ZADD', k.chains, 0, parent .. ' ' .. job_name .. ' ' .. int(now))
      end
      redis.call('ZREM', k.chains, parent .. ' ' .. job_name)
    end
  end
  for at = 1, #lines - FORMER do
    local before, dropped = string.match(lines[at], '^(%d+) %S*(.*)$')
    for parent in string.gmatch(dropped or '', '%S+') do redis.call('ZREM', k.chains, parent .. ' ' .. job_name .. ' ' .. before) end
  end
  if text ~= '' then redis.call('HSET', k.job, 'after', text) else redis.call('HDEL', k.job, 'after') end
end

-- Returns true if a change at the time `changed` came after the beginning `since` of an occurrence. A
-- time after `now` is that of a clock that was ahead, so the change was before.
local function is_changed_since(changed, since, now)
  local at = tonumber(changed)
  return at and since < at and at <= now
end

-- Returns the rule and the parents that a job had at the time `since`; '' if it had none. `after` and
-- `former` are the fields of its record.
local function parents_at(after, former, since, now)
  for line in string.gmatch(former or '', '[^\n]+') do
    local before, text = string.match(line, '^(%d+) (.*)$')
    if is_changed_since(before, since, now) then return text end
  end
  return after or ''
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
