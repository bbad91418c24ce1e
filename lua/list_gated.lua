#!lua flags=no-writes,allow-oom
-- Tells which gates the jobs of a lane have to pass first, and the jobs of each that has few: behind a mass of runs of one gate those
-- of others are found so, whatever the mass.
-- Guard: none; it only reads. At most 1,000 gates a call.
-- KEYS 1 gated
-- ARGV 1 lane
-- ARGV 2 after: the gate, or '' to begin with the first
-- ARGV 3 most: jobs told
-- ARGV 4 few: of a gate with more jobs none is told
-- Reply gated: the last gate looked at, or '' if there is none behind it; {gate, its jobs, ...}
-- Reply wrong_type: key, found, wanted
local gated = KEYS[1]
local bad = wrong_type({gated, 'zset'})
if bad then return bad end
local GATES = 1000
local row, few, told, found = ARGV[1] .. ' ', tonumber(ARGV[4]), 0, {}
-- The sign behind a space: what a name begins with another name goes on with sorts behind it.
local from = ARGV[2] == '' and '[' .. row or '(' .. row .. ARGV[2] .. '!'
local last = ''
for _ = 1, GATES do
  local entries = redis.call('ZRANGE', gated, from, '(' .. ARGV[1] .. '!', 'BYLEX', 'LIMIT', 0, few + 1)
  if not entries[1] then return {'gated', '', found} end
  local gate = string.match(entries[1], '^%S+ (%S+) %S+$')
  if gate then
    local jobs = {}
    for _, entry in ipairs(entries) do
      local of, job = string.match(entry, '^%S+ (%S+) (%S+)$')
      if of ~= gate then break end
      jobs[#jobs + 1] = job
    end
    if #jobs <= few then
      found[#found + 1], found[#found + 2] = gate, table.concat(jobs, ' ')
      told = told + #jobs
    end
    from, last = '(' .. row .. gate .. '!', gate
  else
    from = '(' .. entries[1]
  end
  if told >= tonumber(ARGV[3]) then break end
end
return {'gated', last, found}
