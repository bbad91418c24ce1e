#!lua flags=no-writes,allow-oom
-- Lists the first gates of the jobs of a lane, and the jobs of each gate that has few jobs. With
-- this list a node finds runs of these jobs behind any number of runs of one gate.
-- Guard: none; the script only reads. At most 100 reads a call, each of few + 1 entries.
-- Keys: job_gates
-- Args: lane, after (the gate, or '' for the first), most (the most jobs to list), few (the most
--   jobs of a gate whose jobs are listed)
-- Reply job_gates: the last gate read, or '' if no gate comes after it; {gate, its jobs, ...}
-- Reply wrong_type: key, found, wanted

local job_gates = k.job_gates
local PAGES = 100
local row, few, listed, found = lane .. ' ', tonumber(few), 0, {}
-- The `!` ends a name exactly, because it sorts directly after the space that follows a name.
local from = after == '' and '[' .. row or '(' .. row .. after .. '!'
local last = ''
for _ = 1, PAGES do
  if listed >= tonumber(most) then break end
  local entries = redis.call('ZRANGE', job_gates, from, '(' .. lane .. '!', 'BYLEX', 'LIMIT', 0, few + 1)
  if not entries[1] then return {'job_gates', '', found} end
  local at = 1
  while entries[at] and listed < tonumber(most) do
    local gate, job = string.match(entries[at], '^%S+ (%S+) (%S+)$')
    local jobs, behind = {}, at + 1
    if gate then
      jobs[1] = job
      while entries[behind] do
        local of, other = string.match(entries[behind], '^%S+ (%S+) (%S+)$')
        if of ~= gate then break end
        jobs[#jobs + 1], behind = other, behind + 1
      end
      -- More entries of this gate may follow, so the next page reads the gate again from its first
      -- entry.
      if at > 1 and behind > #entries and #entries > few then break end
      if #jobs <= few then
        found[#found + 1], found[#found + 2] = gate, table.concat(jobs, ' ')
        listed = listed + #jobs
      end
      from, last = '(' .. row .. gate .. '!', gate
    else
      from = '(' .. entries[at]
    end
    at = behind
  end
end
return {'job_gates', last, found}
