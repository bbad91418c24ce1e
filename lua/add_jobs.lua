#!lua
-- Adds new jobs of the command line in one lane, and plans their first runs, with the effects that
-- apply_job.lua would have. Redis itself refuses this script when memory is full.
-- Guard: neither the job nor the run to plan has a record. The caller sends every other job to
-- apply_job.lua, as well as jobs with a unique key, a gate, or a rule against other jobs.
-- A repeated call adds nothing, because the jobs have records; apply_job.lua then answers.
-- KEYS 1 jobs
-- KEYS 2 job_due: of the lane
-- KEYS 3 lanes
-- KEYS 4 nudge
-- KEYS* job
-- KEYS* run: the run to plan
-- KEYS* audit_log
-- ARGV 1 now
-- ARGV 2 lane
-- ARGV 3 source_name
-- ARGV 4 by: the user who adds the jobs, or ''
-- ARGV* planted: the id of the run to plan
-- ARGV* planted_ready
-- ARGV* definition
-- ARGV* token
-- ARGV* tz
-- ARGV* once: 1 for a one-shot, else 0
-- ARGV* anchor
-- ARGV* delay: in ms, if the end of each run plans the next run, else ''
-- ARGV* max_runs: the most runs of the job, or ''
-- ARGV* notify: the notices and deadlines of the job's runs
-- Reply added: for each job 1, or 0 if its name or its run has a record
-- Reply wrong_type: key, found, wanted
local now, micros = clock(ARGV[1])
local jobs, due, lane = KEYS[1], KEYS[2], ARGV[2]
local bad = wrong_type({jobs, 'zset', due, 'zset', KEYS[3], 'zset'})
if bad then return bad end

local rev = int(micros)
local reply, of_jobs, of_due, is_planted = {'added'}, {}, {}, {}
for at = 1, (#KEYS - 4) / 3 do
  local key, arg = 2 + at * 3, at * 10 - 5
  local id, once, delay, notify = ARGV[arg], ARGV[arg + 5], ARGV[arg + 7], ARGV[arg + 9]
  local is_free = redis.call('EXISTS', KEYS[key], KEYS[key + 1]) == 0
  -- One-shots have no entry in the audit log for their adding, because there may be very many of
  -- them. The record says who added the job.
  if is_free and once ~= '1' then is_free = not wrong_type({KEYS[key + 2], 'zset'}) end
  reply[at + 1] = is_free and 1 or 0
  if is_free then
    local job_name, due_ms = string.match(id, '^(.*)@(%d+)$')
    -- The new schedule also covers a planned run that was computed from an earlier reading of the
    -- clock.
    local since = once == '1' and now or math.min(now, tonumber(due_ms) - 1)
    local facts = {'rev', rev, 'kind', 'api', 'token', ARGV[arg + 3], 'queue', lane, 'once', once, 'tz', ARGV[arg + 4], 'anchor', ARGV[arg + 6],
      'since', int(since), 'created_at', int(now), 'first_rev', rev, 'same_since', rev, 'pending', id}
    add_filled(facts, {'source', ARGV[3], 'created_by', ARGV[4], 'delay', delay, 'max_runs', ARGV[arg + 8], 'notify', notify})
    redis.call('HSET', KEYS[key], unpack(add_filled(facts, definition_fields(ARGV[arg + 2]))))
    if once ~= '1' then note_change(KEYS[key + 2], now, 'added', ARGV[4], {}) end
    of_jobs[#of_jobs + 1], of_jobs[#of_jobs + 2] = due_ms, job_name
    of_due[#of_due + 1], of_due[#of_due + 2], is_planted[id] = ARGV[arg + 1], id, true
  end
end
if not of_jobs[1] then return reply end

note_lane(KEYS[3], KEYS[4], lane, now)
redis.call('ZADD', due, unpack(of_due))
redis.call('ZADD', jobs, unpack(of_jobs))
count_change(KEYS[4], 'jobs')
if is_planted[redis.call('ZRANGE', due, 0, 0)[1]] then wake_nodes(KEYS[4], 'due') end
return reply
