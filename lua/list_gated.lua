#!lua flags=no-writes,allow-oom
-- Tells which gates the jobs of a lane have to pass first, and the jobs of each that has few: behind a mass of runs of one gate those
-- of others are found so, whatever the mass.
-- Guard: none; it only reads. At most 100 readings of few and one a call.
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
local PAGES = 100
local row, few, told, found = ARGV[1] .. ' ', tonumber(ARGV[4]), 0, {}
-- The sign behind a space: what a name begins with another name goes on with sorts behind it.
local from = ARGV[2] == '' and '[' .. row or '(' .. row .. ARGV[2] .. '!'
local last = ''
for _ = 1, PAGES do
  if told >= tonumber(ARGV[3]) then break end
  local entries = redis.call('ZRANGE', gated, from, '(' .. ARGV[1] .. '!', 'BYLEX', 'LIMIT', 0, few + 1)
  if not entries[1] then return {'gated', '', found} end
  local at = 1
  while entries[at] and told < tonumber(ARGV[3]) do
    local gate, job = string.match(entries[at], '^%S+ (%S+) (%S+)$')
    local jobs, behind = {}, at + 1
    if gate then
      jobs[1] = job
      while entries[behind] do
        local of, other = string.match(entries[behind], '^%S+ (%S+) (%S+)$')
        if of ~= gate then break end
        jobs[#jobs + 1], behind = other, behind + 1
      end
      -- More of it may stand behind the last that was read: it is read again from its first on.
      if at > 1 and behind > #entries and #entries > few then break end
      if #jobs <= few then
        found[#found + 1], found[#found + 2] = gate, table.concat(jobs, ' ')
        told = told + #jobs
      end
      from, last = '(' .. row .. gate .. '!', gate
    else
      from = '(' .. entries[at]
    end
    at = behind
  end
end
return {'gated', last, found}
