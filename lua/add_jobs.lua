#!lua
-- Adds new jobs of the command line in one lane, and plans their first runs, with the effects that
-- apply_job.lua would have. Redis itself refuses this script when memory is full.
-- Guard: neither the job nor the run to plan has a record. The caller sends every other job to
-- apply_job.lua, as well as jobs with a unique key, a gate, or a rule against other jobs.
-- A repeated call adds nothing, because the jobs have records; apply_job.lua then answers.
-- Keys: jobs, job_due (of the lane), lanes, nudge
-- Keys of each item: job, run (the run to plan), audit_log
-- Args: now, lane, by (the user who adds the jobs, or '')
-- Args of each item: id (of the run to plan), job_name, due_ms, ready, definition, once (1 for a
--   one-shot, else 0), facts (further fields of the job's record, as a JSON list of field, value)
-- Reply added: for each job 1, or 0 if its name or its run has a record, or if it needs a new lane
--   and no lane can be added
-- Reply wrong_type: key, found, wanted

-- Each number that Lua or Redis turns into a text costs time, so these texts are made once.
local rev, now_text = int(micros), int(now)
local reply, of_jobs, of_due, is_planted = {'added'}, {}, {}, {}
local is_refused = is_lane_refused(k.lanes, lane)
local jobs, of_records, is_named = {}, {}, {}
for at = 1, item_count do
  jobs[at] = item(at)
  of_records[#of_records + 1], of_records[#of_records + 2] = jobs[at].job, jobs[at].run
end
-- One call answers for nearly every batch, because the records of new jobs are missing.
local is_any_known = redis.call('EXISTS', unpack(of_records)) > 0
for at, k in ipairs(jobs) do
  local is_once = k.once == '1'
  -- One-shots have no entry in the audit log for their adding, because there may be very many of
  -- them. The record says who added the job.
  local is_known = is_named[k.job_name] or is_any_known and redis.call('EXISTS', k.job, k.run) > 0
  local is_free = not is_refused and not is_known and (is_once or not wrong_type({k.audit_log, 'zset'}))
  is_named[k.job_name] = true
  reply[at + 1] = is_free and 1 or 0
  if is_free then
    -- The new schedule also covers a planned run that was computed from an earlier reading of the
    -- clock.
    local since = is_once and now_text or int(math.min(now, tonumber(k.due_ms) - 1))
    redis.call('HSET', k.job, 'rev', rev, 'queue', lane, 'once', k.once, 'since', since, 'pending', k.id,
      unpack(add_definition(cjson.decode(k.facts), k.definition)))
    if not is_once then note_change(k.audit_log, now, 'added', by, {}) end
    of_jobs[#of_jobs + 1], of_jobs[#of_jobs + 2] = k.due_ms, k.job_name
    of_due[#of_due + 1], of_due[#of_due + 2], is_planted[k.id] = k.ready, k.id, true
  end
end
if not of_jobs[1] then return reply end

note_lane(k.lanes, k.nudge, lane, now)
redis.call('ZADD', k.job_due, unpack(of_due))
redis.call('ZADD', k.jobs, unpack(of_jobs))
count_change(k.nudge, 'jobs', false)
if is_planted[redis.call('ZRANGE', k.job_due, 0, 0)[1]] then wake_nodes(k.nudge, 'due', k.job_due) end
return reply
