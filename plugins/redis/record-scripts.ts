/**
 * Scripts of records: they read and commit the records of jobs, and the lists in which jobs are found. Each export is one
 * script.
 */
import { script } from "./scripts.ts"

/**
 * Arguments: `record` or `all`, ids. Returns for each job the revision and the bytes of its record; with `all` also the
 * task that counts: queue, due, expires, time of publication, whether it is in flight, message, sequence, how often it was
 * delivered.
 */
export const read = script(`
local answers = {}
for at = 4, #ARGV do
  local id = ARGV[at]
  local answer = { '', false }
  local v = revisionOf(id)
  if v ~= '' then answer = { v, call('HGET', OWN .. 'j:' .. id, 'r') } end
  if ARGV[3] == 'all' then
    -- Without a record the task of another program counts where there was none before it. But a worker of Celery's may have
    -- replaced the one that it has taken by that task.
    local function chosen()
      local _, newest, owner = tasksOf(id)
      if v ~= '' or not owner then return newest end
      local isCelerys = call('HEXISTS', UNACKED, owner.tag) == 1 and not isLeased(owner.tag, owner)
      return isCelerys and newest or owner
    end
    local t = chosen()
    while t and isMissing(t.tag, t) do
      forget(t.tag, t)
      t = chosen()
    end
    if not t and v == '' and noteJob(id) then t = chosen() end
    local env = t and messageOf(t.tag, t)
    if env then
      local held = call('HEXISTS', UNACKED, t.tag)
      answer = { answer[1], answer[2], t.queue, t.due, t.expires, t.posted, held, env, t.seq, t.n or 0 }
    end
  end
  answers[at - 3] = answer
end
return answers`)

/**
 * Arguments: commits as JSON, then the bytes that they refer to by position. Each commit compares the record's revision,
 * writes the record, ends the task and publishes what follows, or changes nothing. Returns for each one `committed`, or
 * `gone` where the delivery had lost its task, with the new revision; or `conflict`; or `known` with the ids whose tasks
 * were published before.
 */
export const commit = script(`
local function apply(c)
  if c.unique then
    local known = {}
    for _, p in ipairs(c.post) do
      if call('HEXISTS', OWN .. 'p:' .. p.id, p.key) == 1 then known[#known + 1] = p.id end
    end
    if #known > 0 then return 'known ' .. cjson.encode(known) end
  end
  local revision, r, t = '', c.record, c.task
  if r then
    local stored, old, isStored = revisionOf(c.id)
    if stored ~= r.expect then return 'conflict' end
    local job = OWN .. 'j:' .. c.id
    revision = nextNumber()
    if r.keep then
      call('HSET', job, 'v', revision, 'r', ARGV[r.bytes], 'u', text(now + r.keep))
      call('ZADD', OWN .. 'until', text(now + r.keep), c.id)
    else
      call('HSET', job, 'v', revision, 'r', ARGV[r.bytes])
      if isStored and call('HDEL', job, 'u') == 1 then call('ZREM', OWN .. 'until', c.id) end
    end
    updateLists(c.id, r.index, old)
    changedJobs[#changedJobs + 1] = c.id
  end
  local isGone = false
  if t and t.kind == 'withdraw' then
    for _, tag in ipairs((tasksOf(c.id))) do
      local own = loadTask(tag, true)
      if own and not call('ZSCORE', OWN .. 'h:' .. own.queue, tag) then
        -- A purge withdraws tasks in the order in which they would be taken, so each is found near that end.
        if call('ZREM', OWN .. 'l:' .. own.queue, tag) == 0 then call('LREM', levelKey(own.queue, own.level), -1, own.env or '') end
        forget(tag, own)
      end
    end
  elseif t then
    local tag, own = leasedTask(t.token, t.kind == 'hand-back')
    isGone = not tag
    if tag and t.kind == 'hand-back' then
      release(tag, own, t.delay)
    elseif tag then
      endLease(tag, own)
      forget(tag, own, r and c.id == own.id)
    end
  end
  for _, p in ipairs(c.post or {}) do enqueue(p) end
  return (isGone and 'gone ' or 'committed ') .. revision
end
local answers = {}
for at, c in ipairs(cjson.decode(ARGV[3])) do answers[at] = apply(c) end
announceJobs()
return answers`)

/**
 * Arguments: lists of jobs as JSON, upper and lower bound, how many of each list, and 1 for the first part of a list, which
 * notes what other programs have put into the queues. Returns members of the lists and their indexes.
 */
export const scan = script(`
local out = {}
if ARGV[7] == '1' then
  for _, queue in ipairs(call('SMEMBERS', OWN .. 'shared')) do noteNext(queue) end
end
for _, key in ipairs(cjson.decode(ARGV[3])) do
  for _, member in ipairs(call('ZREVRANGEBYLEX', OWN .. 'x:' .. key, ARGV[4], ARGV[5], 'LIMIT', 0, ARGV[6])) do
    out[#out + 1] = { member, call('HGET', OWN .. 'j:' .. member:sub(18), 'x') }
  end
end
return out`)

/** Arguments: ids. Returns for each job its member in the lists of jobs, and its index. */
export const membersOf = script(`
local out = {}
for at = 3, #ARGV do
  local x = call('HGET', OWN .. 'j:' .. ARGV[at], 'x')
  local _, member = nil, false
  if x then _, member = jobLists(ARGV[at], x) end
  out[at - 2] = { member, x }
end
return out`)

/** Argument: the list of a state, or of a state in a queue. Returns how many jobs it has. */
export const count = script(`
removeEndedRecords()
return call('ZCARD', OWN .. 'x:' .. ARGV[3])`)
