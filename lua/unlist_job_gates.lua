#!lua flags=allow-oom
-- Removes jobs without a planned run, and without a later run, from the index of jobs by first
-- gate.
-- Guard: the job has ended, its only run was claimed, or it does not exist. At most 1,000 jobs a
-- call.
-- KEYS 1 job_gates
-- KEYS* job
-- ARGV* gate_entry: the job's entry in the index
-- Reply unlisted: the number of removed jobs
-- Reply wrong_type: key, found, wanted
local bad = wrong_type({KEYS[1], 'zset'})
if bad then return bad end
local unlisted = 0
for at = 1, #ARGV do
  local job = KEYS[at + 1]
  if not wrong_type({job, 'hash'}) then
    local found = redis.call('HMGET', job, 'once', 'pending', 'paused_run', 'ended', 'gate_entry')
    if found[4] or not found[1] or found[1] == '1' and (found[2] or '') == '' and not found[3] then
      unlisted = unlisted + redis.call('ZREM', KEYS[1], ARGV[at])
      if found[5] then redis.call('HDEL', job, 'gate_entry') end
    end
  end
end
return {'unlisted', unlisted}
