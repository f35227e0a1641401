/**
 * The Lua functions that all scripts share, and the keys that they use. A script runs in the server as one atomic step. The
 * scripts are in `queue-scripts.ts`, `record-scripts.ts` and `store-scripts.ts`.
 *
 * Queues, `unacked` and `unacked_index` are keys of kombu, which Celery's workers read and write too. Callboard keeps these
 * beside them:
 *
 * | key below `callboard:<namespace>:` | holds |
 * |---|---|
 * | `t:<tag>` | a task, by the delivery tag of its message: queue, level, sequence, deliveries, fence, and the message |
 * | `p:<id>` | the publish keys of a job: each with the tag of its task, or with `@` and the time when the task left its queue |
 * | `j:<id>` | the record of a job: revision `v`, bytes `r`, the end of its time to live `u`; and the index `x` that it is listed by |
 * | `h:<queue>` | tags of tasks in flight, by the end of their lease |
 * | `l:<queue>` | tags of scheduled tasks, by their due time |
 * | `x:…` | ids of jobs by their submission: all, and by queue, task, state, root, parent, group and error |
 * | `e:<key>`, `entries`, `ends` | the store: value, revision and end of an entry; all keys; keys with a time to live, by its end |
 * | `counter`, `queues` | the last number that was reserved; names of queues |
 * | `shared` | names of queues into whose lists another program has put messages |
 * | `probe` | nothing: it is written to learn whether the server stores anything |
 * | `until`, `expires` | ids of jobs by the end of their record's time to live; tags of tasks by the time when they expire |
 *
 * A task is in one of its queue's lists, in `l:<queue>`, or in flight. A Celery worker takes a message from a list without
 * telling Callboard, so only the list says whether a task still waits: `t:<tag>` of a task that is found missing is removed.
 */
import { createHash } from "node:crypto"

/**
 * How long a publish key is kept after its task has left its queue, in milliseconds: a second publication is a duplicate.
 */
export const DEDUPE_MS = 120_000

/** Of how many messages at the end of a list, those of other programs are noted as jobs each time that jobs or depths are read. */
const NOTED = 100

/** How many messages are searched for the job of another program, in all lists. */
const SEARCHED = 10_000

/** By how many places messages that were put back may have moved a noted one away from the end of its list. */
const PUT_BACK = 1_000

/**
 * Every script begins with these functions. Its first argument is the prefix of the keys of kombu, the second that of the
 * keys of Callboard; the others are its own. Times are milliseconds since the epoch, by the server's clock.
 */
const SHARED = `
local call, KOMBU, OWN = redis.call, ARGV[1], ARGV[2]
local UNACKED, INDEX = KOMBU .. 'unacked', KOMBU .. 'unacked_index'
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local changedJobs = {}

local function text(n) return string.format('%.0f', n) end
local NOW = text(now)

-- The next number of the counter, for revisions, sequences and fences. Numbers rise, and compare as text as well, since
-- all have the same number of digits: the first one is a time in microseconds (see the script \`open\`). A script reserves a
-- hundred at once to save commands; the rest of them is never used.
local nextFree, lastReserved = 1, 0
local function nextNumber()
  if lastReserved < nextFree then
    nextFree = call('INCRBY', OWN .. 'counter', 100) - 99
    lastReserved = nextFree + 99
  end
  nextFree = nextFree + 1
  return text(nextFree - 1)
end

-- The key of the list in which tasks of a level (0 to 9, and 10 for the front) wait. kombu divides a queue by priority into
-- four lists, and names all but the first by a step: 3, 6 or 9. The first one is read first.
local function levelKey(queue, level)
  level = tonumber(level)
  return KOMBU .. queue .. (level >= 7 and '' or level >= 4 and '\\6\\0223' or level >= 1 and '\\6\\0226' or '\\6\\0229')
end
local LEVELS = { 9, 5, 2, 0 }

-- The lists in which a job with this index is a member, and the member, which sorts by the time of submission. A root is
-- not in the list of its own workflow: it is found by its id.
local function jobLists(id, index)
  local x = cjson.decode(index)
  local keys = { all = true, ['q:' .. x.queue] = true, ['t:' .. x.task] = true }
  if x.state ~= 'succeeded' then keys['s:' .. x.state] = true end
  if x.state == 'failed' or x.state == 'cancelled' or x.state == 'expired' or x.state == 'deferred' then
    keys['c:' .. x.state .. ':' .. x.queue] = true
  end
  if x.error then keys['e:' .. x.error] = true end
  if x.root and x.root ~= id then keys['r:' .. x.root] = true end
  if x.parent then keys['p:' .. x.parent] = true end
  if x.group then keys['g:' .. x.group] = true end
  return keys, string.format('%016.0f:', x.at) .. id
end

-- Moves a job from the lists of the index \`old\` to those of \`index\`; without \`index\` it is in none afterwards.
local function updateLists(id, index, old)
  if old == (index or false) then return end
  local job = OWN .. 'j:' .. id
  if old and index then
    -- The usual change is one of the state alone, where each state has one list at most: two commands, and no JSON to read.
    local from, rest = old:match('^{"state":"(%l+)"(.*)$')
    local to, same = index:match('^{"state":"(%l+)"(.*)$')
    if rest and same and rest ~= same then
      -- A job stays where it was listed first: the clock of a worker that adopts a task of another program may differ.
      same = same:gsub('"at":%d+', rest:match('"at":%d+'), 1)
      index = '{"state":"' .. to .. '"' .. same
    end
    if from and rest == same and from ~= 'deferred' and (to == 'succeeded' or to == 'started' or to == 'queued') then
      local member = string.format('%016.0f:', rest:match('"at":(%d+)')) .. id
      if from ~= 'succeeded' and from ~= 'failed' and from ~= 'cancelled' and from ~= 'expired' then
        call('HSET', job, 'x', index)
        call('ZREM', OWN .. 'x:s:' .. from, member)
        if to ~= 'succeeded' then call('ZADD', OWN .. 'x:s:' .. to, 0, member) end
        return
      end
    end
  end
  local was, from, is, to = {}, nil, {}, nil
  if old then was, from = jobLists(id, old) end
  if index then
    is, to = jobLists(id, index)
    call('HSET', job, 'x', index)
  else
    call('HDEL', job, 'x')
  end
  for key in pairs(was) do
    if not is[key] or from ~= to then call('ZREM', OWN .. 'x:' .. key, from) end
  end
  for key in pairs(is) do
    if not was[key] or from ~= to then call('ZADD', OWN .. 'x:' .. key, 0, to) end
  end
end

-- Reads a task by its tag; nil where there is none. \`whole\`: with its message, index and times.
local function loadTask(tag, whole)
  local found
  if whole then
    found = call('HMGET', OWN .. 't:' .. tag, 'queue', 'level', 'seq', 'n', 'fence', 'size', 'id', 'key', 'expires', 'due',
      'posted', 'index', 'env')
  else
    found = call('HMGET', OWN .. 't:' .. tag, 'queue', 'level', 'seq', 'n', 'fence', 'size', 'id', 'key', 'expires')
  end
  if not found[3] then return nil end
  return {
    queue = found[1], level = found[2], seq = found[3], n = found[4], fence = found[5], size = found[6], id = found[7],
    key = found[8], expires = found[9], due = found[10], posted = found[11], index = found[12], env = found[13],
  }
end

-- Whether a task was published by Callboard. Of one that another program has published, kombu alone has the message in flight.
local function isOwnTask(t) return t.env and t.env:find('^{"properties":{"delivery_tag":') end

-- The tags of a job's tasks that have not left their queues, those in flight included; the newest of these tasks; and the
-- one whose id it is: the newest that Callboard has published, or else the first.
local function tasksOf(id)
  local tags, newest, owner, isOwners = {}, nil, nil, nil
  for _, tag in ipairs(call('HVALS', OWN .. 'p:' .. id)) do
    if tag:sub(1, 1) ~= '@' then
      tags[#tags + 1] = tag
      local t = loadTask(tag, true)
      if t then
        t.tag = tag
        if not newest or t.seq > newest.seq then newest = t end
        local isOwn = isOwnTask(t)
        if not owner or (isOwn and (not isOwners or t.seq > owner.seq)) or not (isOwn or isOwners or t.seq > owner.seq) then
          owner, isOwners = t, isOwn
        end
      end
    end
  end
  return tags, newest, owner
end

-- The revision of a job's record ('' without one), the index by which it is listed, and whether a record is stored, which
-- may be one whose time to live is over.
local function revisionOf(id)
  local found = call('HMGET', OWN .. 'j:' .. id, 'v', 'u', 'x')
  return found[1] and (not found[2] or tonumber(found[2]) > now) and found[1] or '', found[3], found[1]
end

-- Removes a task that has left its queue and is neither in flight nor scheduled. A job without a record is then listed by
-- its newest task that is left.
local function forget(tag, t, hasRecord)
  call('DEL', OWN .. 't:' .. tag)
  if t.expires then call('ZREM', OWN .. 'expires', tag) end
  if not t.id then return end
  call('HSET', OWN .. 'p:' .. t.id, t.key, '@' .. NOW)
  local tags, newest = tasksOf(t.id)
  if #tags == 0 then call('PEXPIRE', OWN .. 'p:' .. t.id, ${DEDUPE_MS}) end
  if hasRecord then return end
  local found = call('HMGET', OWN .. 'j:' .. t.id, 'v', 'x')
  if not found[1] then updateLists(t.id, newest and newest.index, found[2]) end
end

-- The tag of a message that Callboard wrote, which begins with it; nil for any other message.
local function ownTagOf(value) return value:match('^{"properties":{"delivery_tag":"([%w-]+)"') end

-- The tag of any message; for one without a usable tag a hash of its bytes. Returns the message as a table as well, where it
-- had to be read.
local function tagOf(value)
  local own = ownTagOf(value)
  if own then return own end
  local ok, env = pcall(cjson.decode, value)
  if ok and type(env) == 'table' and type(env.properties) == 'table' then
    local tag = env.properties.delivery_tag
    if type(tag) == 'string' and #tag > 0 and #tag <= 255 and not tag:find('%c') then return tag, env end
  end
  return 'callboard-' .. redis.sha1hex(value), ok and type(env) == 'table' and env
end

-- Puts a message back into its list by its sequence: before all tasks that were published later. The tasks that go before
-- it were given back too, so there are few; after 200 of them the message is put where the search has come to.
local function insert(queue, level, seq, value)
  local key, stash = levelKey(queue, level), {}
  while #stash < 200 do
    local last = call('LINDEX', key, -1)
    local found = last and call('HMGET', OWN .. 't:' .. tagOf(last), 'seq', 'level')
    if not found or not found[1] then break end
    local isFront = found[2] == '10'
    if isFront ~= (tonumber(level) == 10) then
      if not isFront then break end
    elseif found[1] > seq then
      break
    end
    stash[#stash + 1] = call('RPOP', key)
  end
  call('RPUSH', key, value)
  for at = #stash, 1, -1 do call('RPUSH', key, stash[at]) end
end

local noted = {}
local function noteQueue(queue)
  if not noted[queue] then call('SADD', OWN .. 'queues', queue) end
  noted[queue] = true
end

local shared = {}
local function noteShared(queue)
  if not shared[queue] then call('SADD', OWN .. 'shared', queue) end
  shared[queue] = true
end

-- A field of an index, as the runtime writes it; nothing where the value is no text.
local function field(name, value)
  return type(value) == 'string' and value ~= '' and ',"' .. name .. '":' .. cjson.encode(value) or ''
end

-- What is known of a message that another program, such as Celery's client, has put into the list. The argument
-- env is the message as a table, where it is JSON. Returns fields for the task, in pairs, and the id of its job, where that has
-- no such task yet.
local function adopt(tag, value, env, queue, level)
  local headers = env and type(env.headers) == 'table' and env.headers or {}
  local properties = env and type(env.properties) == 'table' and env.properties or {}
  local priority = tonumber(properties.priority)
  if priority then level = 9 - math.max(0, math.min(9, math.floor(priority))) end
  local fields = { 'level', level, 'seq', nextNumber(), 'posted', NOW }
  if not env or not value:find('}%s*$') then fields[7], fields[8] = 'env', value end
  noteQueue(queue)
  noteShared(queue)
  local id, retries = headers.id, tonumber(headers.retries) or 0
  if type(id) ~= 'string' or #id == 0 or #id > 255 or id:find('%z') then return fields end
  local keys, key = OWN .. 'p:' .. id, id .. '/1/' .. text(retries)
  if call('HSETNX', keys, key, tag) == 0 then return fields end
  call('PERSIST', keys)
  -- The same text that the index of the job's record will have, but for the state.
  local task = type(headers.task) == 'string' and headers.task or ''
  local index = '{"state":"queued","queue":' .. cjson.encode(queue) .. ',"task":' .. cjson.encode(task) .. ',"at":'
    .. NOW .. field('method', headers.meth) .. field('root', headers.root_id)
    .. field('parent', headers.parent_id) .. field('group', headers.group) .. '}'
  local revision, old = revisionOf(id)
  if revision == '' and not select(2, tasksOf(id)) then updateLists(id, index, old) end
  for _, each in ipairs({ 'id', id, 'key', key, 'index', index }) do fields[#fields + 1] = each end
  return fields, id
end

-- Whether nothing is known of a job but one task.
local function isAlone(id)
  return call('HLEN', OWN .. 'p:' .. id) == 1 and call('HEXISTS', OWN .. 'j:' .. id, 'v') == 0
end

-- Notes a message that another program has put into a list, so that its job is found while it waits. A message that is noted
-- already stays as it is. Returns the id of the job, false where the message names none.
-- far: how many places from the end of its list the message is at most, where there may be others before it that are not noted.
local function noteWaiting(value, queue, level, far)
  local tag, env = tagOf(value)
  local own = OWN .. 't:' .. tag
  if call('EXISTS', own) == 0 then
    local fields = adopt(tag, value, env, queue, level)
    -- The list decides where the message is found; its priority may name another one.
    if levelKey(queue, fields[2]) ~= levelKey(queue, level) then fields[2] = level end
    if far then fields[#fields + 1], fields[#fields + 2] = 'far', far end
    call('HSET', own, 'queue', queue, 'env', value, unpack(fields))
  end
  return call('HGET', own, 'id')
end

-- Notes what another program has put into the lists of a queue: of each list those that are taken next.
local function noteNext(queue)
  for _, level in ipairs(LEVELS) do
    local values = call('LRANGE', levelKey(queue, level), -${NOTED}, -1)
    for at = #values, 1, -1 do
      if not ownTagOf(values[at]) then noteWaiting(values[at], queue, level) end
    end
  end
end

-- Looks for the message of a job that another program has put into a list, and notes it. Of ${SEARCHED} messages each list
-- has its part: those that are taken next.
local function noteJob(id)
  local lists = {}
  for _, queue in ipairs(call('SMEMBERS', OWN .. 'shared')) do
    for _, level in ipairs(LEVELS) do
      if call('EXISTS', levelKey(queue, level)) == 1 then lists[#lists + 1] = { queue, level } end
    end
  end
  local part = math.ceil(${SEARCHED} / #lists)
  for _, list in ipairs(lists) do
    local queue, level, from = list[1], list[2], 0
    while from < part do
      local values = call('LRANGE', levelKey(queue, level), -from - 500, -from - 1)
      from = from + #values
      for at = #values, 1, -1 do
        if values[at]:find(id, 1, true) and not ownTagOf(values[at]) and noteWaiting(values[at], queue, level, from) == id then
          return true
        end
      end
      if #values < 500 then break end
    end
  end
  return false
end

-- Puts a task into its queue. Returns false where its publish key is known, since then it is a duplicate.
local function enqueue(p)
  local keys = OWN .. 'p:' .. p.id
  if call('HSETNX', keys, p.key, p.tag) == 0 then return false end
  local known = call('HLEN', keys)
  if known > 1 then call('PERSIST', keys) end
  if known > 20 then
    local all = call('HGETALL', keys)
    for at = 1, #all, 2 do
      local left = all[at + 1]:match('^@(%d+)$')
      if left and tonumber(left) + ${DEDUPE_MS} < now then call('HDEL', keys, all[at]) end
    end
  end
  local seq, env = nextNumber(), ARGV[p.env]
  local own = OWN .. 't:' .. p.tag
  call('HSET', own, 'queue', p.queue, 'level', p.level, 'seq', seq, 'id', p.id, 'key', p.key, 'posted', NOW,
    'index', p.index, 'env', env)
  if p.due then call('HSET', own, 'due', text(p.due)) end
  noteQueue(p.queue)
  if p.due and p.due > now then
    call('ZADD', OWN .. 'l:' .. p.queue, text(p.due), p.tag)
  elseif p.level == 10 then
    insert(p.queue, p.level, seq, env)
  else
    call('LPUSH', levelKey(p.queue, p.level), env)
  end
  if p.expires then
    call('HSET', own, 'expires', text(p.expires))
    call('ZADD', OWN .. 'expires', text(p.expires), p.tag)
  end
  local revision, old = revisionOf(p.id)
  if revision == '' then updateLists(p.id, p.index, old) end
  changedJobs[#changedJobs + 1] = p.id
  return true
end

-- Whether the last delivery to a Callboard worker still has the task. A Celery worker that has taken the task since wrote
-- an entry of its own under the same tag, which has another length: Python puts blanks between values.
local function isLeased(tag, t) return t.fence and call('HSTRLEN', UNACKED, tag) == tonumber(t.size) end

-- The tag and the task of a delivery's token; nil where that delivery has lost the task.
local function leasedTask(token, whole)
  local fence, tag = token:match('^(%d+)%.(.+)$')
  local t = fence and loadTask(tag, whole)
  if t and t.fence == fence and isLeased(tag, t) then return tag, t end
end

-- The message of a task. While a task of another program is in flight, only kombu's entry has it.
local function messageOf(tag, t)
  return t.env or (call('HGET', UNACKED, tag) or ''):match('^%[(.*}%s*),%s?"[^"]*",%s?".*"%]$')
end

-- Removes the notes that a task is in flight, kombu's and Callboard's.
local function endLease(tag, t)
  call('HDEL', UNACKED, tag)
  call('ZREM', INDEX, tag)
  call('ZREM', OWN .. 'h:' .. t.queue, tag)
end

-- Ends a delivery whose task is to be delivered again. Returns the message.
local function endDelivery(tag, t)
  local env = messageOf(tag, t)
  endLease(tag, t)
  if not t.env then call('HSET', OWN .. 't:' .. tag, 'env', env) end
  call('HDEL', OWN .. 't:' .. tag, 'fence')
  return env
end

-- Gives a task that is in flight back to its queue, at once or after a delay in milliseconds.
local function release(tag, t, delay)
  local env = endDelivery(tag, t)
  if delay > 0 then
    call('ZADD', OWN .. 'l:' .. t.queue, text(now + delay), tag)
  else
    insert(t.queue, t.level, t.seq, env)
  end
end

-- Removes records whose time to live is over. A job of which a task is left is listed by that task from then on.
local function removeEndedRecords()
  for _, id in ipairs(call('ZRANGEBYSCORE', OWN .. 'until', '-inf', NOW, 'LIMIT', 0, 1000)) do
    call('ZREM', OWN .. 'until', id)
    call('HDEL', OWN .. 'j:' .. id, 'v', 'r', 'u')
    local _, newest = tasksOf(id)
    updateLists(id, newest and newest.index, call('HGET', OWN .. 'j:' .. id, 'x'))
  end
end

-- Puts tasks that have fallen due, and tasks whose lease is over, into the lists of a queue.
local function requeueDue(queue)
  local back = {}
  local held, later = OWN .. 'h:' .. queue, OWN .. 'l:' .. queue
  for _, tag in ipairs(call('ZRANGEBYSCORE', held, '-inf', NOW, 'LIMIT', 0, 1000)) do
    local t = loadTask(tag, true)
    call('ZREM', held, tag)
    if t and isLeased(tag, t) then
      t.env = endDelivery(tag, t)
      back[#back + 1] = t
    end
  end
  for _, tag in ipairs(call('ZRANGEBYSCORE', later, '-inf', NOW, 'LIMIT', 0, 1000)) do
    call('ZREM', later, tag)
    back[#back + 1] = loadTask(tag, true)
  end
  table.sort(back, function(a, b) return a.seq > b.seq end)
  for _, t in ipairs(back) do insert(t.queue, t.level, t.seq, t.env) end
end

-- The highest number of a message of another program that is noted and comes soon in a list. Messages are noted in the order in
-- which they are taken.
local soon = {}
local function soonIn(key)
  if soon[key] then return soon[key] end
  soon[key] = 0
  for _, value in ipairs(call('LRANGE', key, -20, -1)) do
    local found = not ownTagOf(value) and call('HMGET', OWN .. 't:' .. tagOf(value), 'seq', 'far')
    if found and found[1] and not found[2] then soon[key] = math.max(soon[key], tonumber(found[1])) end
  end
  return soon[key]
end

-- Whether a message of another program has left its list, and how many messages were searched for it.
local function isTaken(tag, t, key)
  local far = call('HGET', OWN .. 't:' .. tag, 'far')
  if not far and soonIn(key) > tonumber(t.seq) and not call('LPOS', key, t.env, 'RANK', -1, 'MAXLEN', 20) then return true, 20 end
  local most = (far or ${NOTED}) + ${PUT_BACK}
  local at = call('LPOS', key, t.env, 'RANK', -1, 'MAXLEN', most)
  return not at, at and call('LLEN', key) - at or most
end

-- Whether a task has left its list without a script of Callboard: a Celery worker has taken it. To search the whole list
-- would take too long: a task that is older than the oldest known message of its list is no longer in it. The second answer
-- says how many messages were searched.
local function isMissing(tag, t)
  if call('ZSCORE', OWN .. 'h:' .. t.queue, tag) or call('ZSCORE', OWN .. 'l:' .. t.queue, tag) then return false, 0 end
  if call('HEXISTS', UNACKED, tag) == 1 then return false, 0 end
  local key = levelKey(t.queue, t.level)
  if t.env and not ownTagOf(t.env) then return isTaken(tag, t, key) end
  for at = -1, -20, -1 do
    local value = call('LINDEX', key, at)
    if not value then return true, 0 end
    local other = ownTagOf(value)
    if other == tag then return false, 0 end
    local found = other and call('HMGET', OWN .. 't:' .. other, 'seq', 'level') or {}
    if found[1] and (found[2] ~= '10' or t.level == '10') then
      return found[2] ~= t.level and t.level == '10' or found[1] > t.seq, 0
    end
  end
  return false, 0
end

-- Announces the jobs that the script has changed to the processes that watch jobs.
local function announceJobs()
  if #changedJobs > 0 then call('PUBLISH', OWN .. 'jobs', cjson.encode(changedJobs)) end
end

-- Announces changed keys of the store to the processes that watch it.
local function announceKeys(keys)
  if #keys > 0 then call('PUBLISH', OWN .. 'store', cjson.encode(keys)) end
end
`

export interface Script {
  readonly source: string
  /** SHA-1 of the source, by which the server finds a script that was loaded. */
  readonly sha: string
}

/** A script that begins with the shared functions. */
export const script = (body: string): Script => {
  const source = SHARED + body
  return { source, sha: createHash("sha1").update(source).digest("hex") }
}
