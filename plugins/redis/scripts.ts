/**
 * The scripts that run in the server, each of them atomic. They share kombu's keys (queues, `unacked`, `unacked_index`),
 * which Celery's workers read and write too, and keep the keys of Callboard beside them:
 *
 * | key below `callboard:<namespace>:` | holds |
 * |---|---|
 * | `t:<tag>` | a task in a queue, by its delivery tag: queue, level, sequence, deliveries, fence, the message |
 * | `p:<id>` | publish keys of a job: the tag of the task in a queue, or `@` and when it left its queue |
 * | `j:<id>` | the record of a job: revision `v`, bytes `r`, until when it is kept `u`, and the index `x` that it is listed by |
 * | `h:<queue>`, `l:<queue>` | tags of tasks in hand, by the end of their lease; of those to come later, by their time |
 * | `x:…` | ids of jobs in the order of their submission: all, and by queue, task, state, root, parent, group and error |
 * | `e:<key>`, `entries`, `ends` | the store: value, revision and end of an entry; all keys; the ends of those that have one |
 * | `counter`, `queues`, `until`, `expires` | numbers; queues; ends of records; when tasks expire |
 *
 * A task is in its queue's list, in `l:`, or in hand. The list is the truth about what waits: a Celery worker takes from it
 * without a word to us. All that we remember about such a task is dropped when it is found gone.
 */
import { createHash } from "node:crypto"

/** How long a publish key is remembered after its task left its queue, in milliseconds. */
export const DEDUPE_MS = 120_000

/** Every script begins with these functions. Arguments 1 and 2 are the two prefixes, the others belong to the script. */
const SHARED = `
local call, P, O = redis.call, ARGV[1], ARGV[2]
local UNACKED, INDEX = P .. 'unacked', P .. 'unacked_index'
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local told = {}

local function text(n) return string.format('%.0f', n) end
-- Unique, and rising over all that is stored. All have the same number of digits, since the first one is a time. A script
-- takes a hundred at once: what it does not need is never used.
local last, least = 0, 1
local function number()
  if last < least then
    least = call('INCRBY', O .. 'counter', 100) - 99
    last = least + 99
  end
  least = least + 1
  return text(least - 1)
end

-- The list of a level: kombu's steps of priority, of which the lowest comes first.
local function listOf(queue, level)
  level = tonumber(level)
  return P .. queue .. (level >= 7 and '' or level >= 4 and '\\6\\0223' or level >= 1 and '\\6\\0226' or '\\6\\0229')
end
local LEVELS = { 9, 5, 2, 0 }

-- The keys under which a job is listed, and its place there. A job is always found by its own id as its root.
local function places(id, index)
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

-- Lists a job by an index, or not at all; \`old\` is the one by which it is listed.
local function list(id, index, old)
  if old == (index or false) then return end
  local job = O .. 'j:' .. id
  if old and index then
    -- Nearly always only the state differs, and mostly between two for which there is one list at most.
    local from, rest = old:match('^{"state":"(%l+)"(.*)$')
    local to, same = index:match('^{"state":"(%l+)"(.*)$')
    if from and rest == same and from ~= 'deferred' and (to == 'succeeded' or to == 'started' or to == 'queued') then
      local member = string.format('%016.0f:', rest:match('"at":(%d+)')) .. id
      if from ~= 'succeeded' and from ~= 'failed' and from ~= 'cancelled' and from ~= 'expired' then
        call('HSET', job, 'x', index)
        call('ZREM', O .. 'x:s:' .. from, member)
        if to ~= 'succeeded' then call('ZADD', O .. 'x:s:' .. to, 0, member) end
        return
      end
    end
  end
  local was, from, is, to = {}, nil, {}, nil
  if old then was, from = places(id, old) end
  if index then
    is, to = places(id, index)
    call('HSET', job, 'x', index)
  else
    call('HDEL', job, 'x')
  end
  for key in pairs(was) do
    if not is[key] or from ~= to then call('ZREM', O .. 'x:' .. key, from) end
  end
  for key in pairs(is) do
    if not was[key] or from ~= to then call('ZADD', O .. 'x:' .. key, 0, to) end
  end
end

-- What is known of a task, with its message and index where they are needed.
local function task(tag, whole)
  local found
  if whole then
    found = call('HMGET', O .. 't:' .. tag, 'queue', 'level', 'seq', 'n', 'fence', 'size', 'id', 'key', 'expires', 'due',
      'posted', 'index', 'env')
  else
    found = call('HMGET', O .. 't:' .. tag, 'queue', 'level', 'seq', 'n', 'fence', 'size', 'id', 'key', 'expires')
  end
  if not found[3] then return nil end
  return {
    queue = found[1], level = found[2], seq = found[3], n = found[4], fence = found[5], size = found[6], id = found[7],
    key = found[8], expires = found[9], due = found[10], posted = found[11], index = found[12], env = found[13],
  }
end

-- The tags of a job's tasks that are in queues, and the newest task.
local function tasksOf(id)
  local tags, newest = {}, nil
  for _, tag in ipairs(call('HVALS', O .. 'p:' .. id)) do
    if tag:sub(1, 1) ~= '@' then
      tags[#tags + 1] = tag
      local t = task(tag, true)
      if t and (not newest or t.seq > newest.seq) then
        newest = t
        newest.tag = tag
      end
    end
  end
  return tags, newest
end

-- The revision of a job's record, the index by which it is listed, and whether there is a record, if only one that is over.
local function revisionOf(id)
  local found = call('HMGET', O .. 'j:' .. id, 'v', 'u', 'x')
  return found[1] and (not found[2] or tonumber(found[2]) > now) and found[1] or '', found[3], found[1]
end

-- Forgets a task that has left its queue, and is neither in hand nor to come later.
local function drop(tag, t)
  call('DEL', O .. 't:' .. tag)
  if t.expires then call('ZREM', O .. 'expires', tag) end
  if not t.id then return end
  call('HSET', O .. 'p:' .. t.id, t.key, '@' .. text(now))
  local tags, newest = tasksOf(t.id)
  if #tags == 0 then call('PEXPIRE', O .. 'p:' .. t.id, ${DEDUPE_MS}) end
  local found = call('HMGET', O .. 'j:' .. t.id, 'v', 'x')
  if not found[1] then list(t.id, newest and newest.index, found[2]) end
end

-- The tag of a message as we wrote it.
local function isOwn(value) return value:match('^{"properties":{"delivery_tag":"([%w-]+)"') end

-- The tag of any message; that of one without a tag is made of its bytes.
local function tagOf(value)
  local own = isOwn(value)
  if own then return own end
  local ok, env = pcall(cjson.decode, value)
  if ok and type(env) == 'table' and type(env.properties) == 'table' then
    local tag = env.properties.delivery_tag
    if type(tag) == 'string' and #tag > 0 and #tag <= 255 and not tag:find('%c') then return tag, env end
  end
  return 'callboard-' .. redis.sha1hex(value)
end

-- Puts a message where it will be taken in the order of its sequence, before all that were published later. Those before
-- it are few: they were given back as well.
local function place(queue, level, seq, value)
  local key, stash = listOf(queue, level), {}
  while #stash < 200 do
    local last = call('LINDEX', key, -1)
    local found = last and call('HMGET', O .. 't:' .. tagOf(last), 'seq', 'level')
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

-- Puts a task into its queue. Returns false for a key that is known.
local function post(p)
  local keys = O .. 'p:' .. p.id
  if call('HSETNX', keys, p.key, p.tag) == 0 then return false end
  call('PERSIST', keys)
  if call('HLEN', keys) > 20 then
    local all = call('HGETALL', keys)
    for at = 1, #all, 2 do
      local left = all[at + 1]:match('^@(%d+)$')
      if left and tonumber(left) + ${DEDUPE_MS} < now then call('HDEL', keys, all[at]) end
    end
  end
  local seq, env = number(), ARGV[p.env]
  local own = O .. 't:' .. p.tag
  call('HSET', own, 'queue', p.queue, 'level', p.level, 'seq', seq, 'id', p.id, 'key', p.key, 'posted', text(now),
    'index', p.index, 'env', env)
  if p.due then call('HSET', own, 'due', text(p.due)) end
  call('SADD', O .. 'queues', p.queue)
  if p.due and p.due > now then
    call('ZADD', O .. 'l:' .. p.queue, text(p.due), p.tag)
  elseif p.level == 10 then
    place(p.queue, p.level, seq, env)
  else
    call('LPUSH', listOf(p.queue, p.level), env)
  end
  if p.expires then
    call('HSET', own, 'expires', text(p.expires))
    call('ZADD', O .. 'expires', text(p.expires), p.tag)
  end
  local revision, old = revisionOf(p.id)
  if revision == '' then list(p.id, p.index, old) end
  told[#told + 1] = p.id
  return true
end

-- Whether a delivery of ours still has a task. What kombu writes about the same message is longer, since Python puts blanks
-- between values: by its size we see that no Celery worker has got the task meanwhile.
local function isHeld(tag, t) return t.fence and call('HSTRLEN', UNACKED, tag) == tonumber(t.size) end

-- The task of a token, if that delivery still has it.
local function taskOf(token, whole)
  local fence, tag = token:match('^(%d+)%.(.+)$')
  local t = fence and task(tag, whole)
  if t and t.fence == fence and isHeld(tag, t) then return tag, t end
end

local function letGo(tag, t)
  call('HDEL', UNACKED, tag)
  call('ZREM', INDEX, tag)
  call('ZREM', O .. 'h:' .. t.queue, tag)
end

-- Gives a task back, which no delivery has then.
local function release(tag, t, delay)
  letGo(tag, t)
  call('HDEL', O .. 't:' .. tag, 'fence')
  if delay > 0 then
    call('ZADD', O .. 'l:' .. t.queue, text(now + delay), tag)
  else
    place(t.queue, t.level, t.seq, t.env)
  end
end

-- Removes records that are not kept any more. Their jobs are listed by their newest task, if they have one.
local function expire()
  for _, id in ipairs(call('ZRANGEBYSCORE', O .. 'until', '-inf', text(now), 'LIMIT', 0, 1000)) do
    call('ZREM', O .. 'until', id)
    call('HDEL', O .. 'j:' .. id, 'v', 'r', 'u')
    local _, newest = tasksOf(id)
    list(id, newest and newest.index, call('HGET', O .. 'j:' .. id, 'x'))
  end
end

-- Puts back into the list what has fallen due, and what has lost its lease.
local function ripen(queue)
  local back = {}
  local held, later = O .. 'h:' .. queue, O .. 'l:' .. queue
  for _, tag in ipairs(call('ZRANGEBYSCORE', held, '-inf', text(now), 'LIMIT', 0, 1000)) do
    local t = task(tag, true)
    call('ZREM', held, tag)
    if t and isHeld(tag, t) then
      letGo(tag, t)
      call('HDEL', O .. 't:' .. tag, 'fence')
      back[#back + 1] = t
    end
  end
  for _, tag in ipairs(call('ZRANGEBYSCORE', later, '-inf', text(now), 'LIMIT', 0, 1000)) do
    call('ZREM', later, tag)
    back[#back + 1] = task(tag, true)
  end
  table.sort(back, function(a, b) return a.seq > b.seq end)
  for _, t in ipairs(back) do place(t.queue, t.level, t.seq, t.env) end
end

-- Whether a task that we think to be in its list is not there: a Celery worker took it. What is older than the oldest
-- known message of a list has left it.
local function isGone(tag, t)
  if call('ZSCORE', O .. 'h:' .. t.queue, tag) or call('ZSCORE', O .. 'l:' .. t.queue, tag) then return false end
  if call('HEXISTS', UNACKED, tag) == 1 then return false end
  for at = -1, -20, -1 do
    local value = call('LINDEX', listOf(t.queue, t.level), at)
    if not value then return true end
    local other = tagOf(value)
    if other == tag then return false end
    local found = call('HMGET', O .. 't:' .. other, 'seq', 'level')
    if found[1] and (found[2] ~= '10' or t.level == '10') then return found[2] ~= t.level and t.level == '10' or found[1] > t.seq end
  end
  return false
end

local function tell()
  if #told > 0 then call('PUBLISH', O .. 'jobs', cjson.encode(told)) end
end

local function tellStore(keys)
  if #keys > 0 then call('PUBLISH', O .. 'store', cjson.encode(keys)) end
end
`

export interface Script {
  readonly source: string
  readonly sha: string
}

const script = (body: string): Script => {
  const source = SHARED + body
  return { source, sha: createHash("sha1").update(source).digest("hex") }
}

/** Begins the numbers at the time of day in microseconds, so that a server that lost its last second repeats none. */
export const open = script(`
local first = call('TIME')
local least = first[1] * 1000000 + first[2]
if tonumber(call('GET', O .. 'counter') or '0') < least then call('SET', O .. 'counter', text(least)) end
return now`)

export const publish = script(`
local answers = {}
for at, p in ipairs(cjson.decode(ARGV[3])) do answers[at] = post(p) and 1 or 0 end
tell()
return answers`)

/** Arguments: most, turn, lease, queues. Answers deliveries, or when to ask again. */
export const take = script(`
local max, turn, lease, queues = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), cjson.decode(ARGV[6])
local out = {}

-- Remembers a message that something else has put into the list.
local function adopt(tag, value, queue, level)
  local isRead, env = pcall(cjson.decode, value)
  if not isRead or type(env) ~= 'table' then env = {} end
  local headers = type(env.headers) == 'table' and env.headers or {}
  local properties = type(env.properties) == 'table' and env.properties or {}
  local t = { queue = queue, level = level, seq = number(), n = 0, posted = text(now) }
  local priority = tonumber(properties.priority)
  if priority then t.level = 9 - math.max(0, math.min(9, math.floor(priority))) end
  local id, retries = headers.id, tonumber(headers.retries) or 0
  if type(id) == 'string' and #id > 0 and #id <= 255 and not id:find('%z') then
    local key = id .. '/1/' .. text(retries)
    if call('HSETNX', O .. 'p:' .. id, key, tag) == 1 then
      call('PERSIST', O .. 'p:' .. id)
      t.id, t.key = id, key
      local name = type(headers.task) == 'string' and headers.task or ''
      t.index = cjson.encode({ state = 'queued', queue = queue, task = name, at = now })
      local revision, old = revisionOf(id)
      if revision == '' then list(id, t.index, old) end
    end
  end
  for field, found in pairs(t) do call('HSET', O .. 't:' .. tag, field, found) end
  call('SADD', O .. 'queues', queue)
  return t
end

local heldUntil, handed = text(now + lease), clock[1] .. '.' .. string.format('%06d', clock[2])
local index, held = {}, {}

-- Two answers for each task: what is known of it, with the place of its queue in the request; and its message.
local function deliver(value, queue, level, address, place)
  local tag = tagOf(value)
  local entry = '[' .. value .. address
  if call('HSETNX', UNACKED, tag, entry) == 0 then
    tag = 'callboard-' .. number()
    call('HSET', UNACKED, tag, entry)
  end
  local found = call('HMGET', O .. 't:' .. tag, 'level', 'seq', 'n')
  local t = found[2] and { level = found[1], seq = found[2], n = found[3] or 0 } or adopt(tag, value, queue, level)
  local fence, n = number(), t.n + 1
  local own = O .. 't:' .. tag
  if isOwn(value) then
    call('HSET', own, 'fence', fence, 'n', n, 'size', #entry)
  else
    call('HSET', own, 'fence', fence, 'n', n, 'size', #entry, 'queue', queue, 'env', value)
  end
  -- kombu would fail to restore what is no message.
  if tag:sub(1, 10) ~= 'callboard-' then
    index[#index + 1] = handed
    index[#index + 1] = tag
  end
  held[#held + 1] = heldUntil
  held[#held + 1] = tag
  local isFirst = n == 1 and not (value:find('"redelivered"', 1, true) and value:find('"redelivered"%s*:%s*true'))
  out[#out + 1] = table.concat({ t.level, t.seq, isFirst and 1 or 0, fence, n, place, tag }, ' ')
  out[#out + 1] = value
end

-- Notes at once whatever was taken from a queue.
local function note(queue)
  for _, each in ipairs({ { INDEX, index }, { O .. 'h:' .. queue, held } }) do
    for at = 1, #each[2], 1000 do
      call('ZADD', each[1], unpack(each[2], at, math.min(at + 999, #each[2])))
    end
  end
  index, held = {}, {}
end

for _, queue in ipairs(queues) do ripen(queue) end
local before
repeat
  before = #out
  for at, queue in ipairs(queues) do
    local left, address = math.min(turn, max - #out / 2), ',"",' .. cjson.encode(queue) .. ']'
    for _, level in ipairs(LEVELS) do
      local key = listOf(queue, level)
      while left > 0 do
        local value = call('RPOP', key)
        if not value then break end
        deliver(value, queue, level, address, at)
        left = left - 1
      end
    end
    note(queue)
  end
until #out == before or #out == 2 * max
if #out > 0 then return out end
local soon
for _, queue in ipairs(queues) do
  for _, kind in ipairs({ 'h:', 'l:' }) do
    local found = call('ZRANGE', O .. kind .. queue, 0, 0, 'WITHSCORES')
    if found[2] and (not soon or tonumber(found[2]) < soon) then soon = tonumber(found[2]) end
  end
end
return soon and math.max(0, soon - now) or -1`)

export const giveBack = script(`
for at = 3, #ARGV do
  local tag, t = taskOf(ARGV[at], true)
  if tag then
    call('HINCRBY', O .. 't:' .. tag, 'n', -1)
    release(tag, t, 0)
  end
end
return 0`)

export const extend = script(`
local answers = {}
for at = 4, #ARGV do
  local tag, t = taskOf(ARGV[at])
  if tag then
    call('ZADD', O .. 'h:' .. t.queue, text(now + ARGV[3]), tag)
    call('ZADD', INDEX, 'XX', clock[1], tag)
  end
  answers[at - 3] = tag and 1 or 0
end
return answers`)

/** Arguments: record or all, ids. */
export const read = script(`
local answers = {}
for at = 4, #ARGV do
  local id = ARGV[at]
  local answer = { '', false }
  local v = revisionOf(id)
  if v ~= '' then answer = { v, call('HGET', O .. 'j:' .. id, 'r') } end
  if ARGV[3] == 'all' then
    local _, t = tasksOf(id)
    while t and isGone(t.tag, t) do
      drop(t.tag, t)
      _, t = tasksOf(id)
    end
    if t then
      local held = call('HEXISTS', UNACKED, t.tag)
      answer = { answer[1], answer[2], t.queue, t.due, t.expires, t.posted, held, t.env }
    end
  end
  answers[at - 3] = answer
end
return answers`)

/** Arguments: commits as JSON, then what is bytes. */
export const commit = script(`
local function apply(c)
  if c.unique then
    local known = {}
    for _, p in ipairs(c.post) do
      if call('HEXISTS', O .. 'p:' .. p.id, p.key) == 1 then known[#known + 1] = p.id end
    end
    if #known > 0 then return 'known ' .. cjson.encode(known) end
  end
  local revision, r, t = '', c.record, c.task
  if r then
    local stored, old, isStored = revisionOf(c.id)
    if stored ~= r.expect then return 'conflict' end
    local job = O .. 'j:' .. c.id
    revision = number()
    if r.keep then
      call('HSET', job, 'v', revision, 'r', ARGV[r.bytes], 'u', text(now + r.keep))
      call('ZADD', O .. 'until', text(now + r.keep), c.id)
    else
      call('HSET', job, 'v', revision, 'r', ARGV[r.bytes])
      if isStored and call('HDEL', job, 'u') == 1 then call('ZREM', O .. 'until', c.id) end
    end
    list(c.id, r.index, old)
    told[#told + 1] = c.id
  end
  local isGone = false
  if t and t.kind == 'withdraw' then
    for _, tag in ipairs((tasksOf(c.id))) do
      local own = task(tag, true)
      if own and not call('ZSCORE', O .. 'h:' .. own.queue, tag) then
        if call('ZREM', O .. 'l:' .. own.queue, tag) == 0 then call('LREM', listOf(own.queue, own.level), 0, own.env) end
        drop(tag, own)
      end
    end
  elseif t then
    local tag, own = taskOf(t.token, t.kind == 'release')
    isGone = not tag
    if tag and t.kind == 'release' then
      release(tag, own, t.delay)
    elseif tag then
      letGo(tag, own)
      drop(tag, own)
    end
  end
  for _, p in ipairs(c.post or {}) do post(p) end
  return (isGone and 'gone ' or 'committed ') .. revision
end
local answers = {}
for at, c in ipairs(cjson.decode(ARGV[3])) do answers[at] = apply(c) end
tell()
return answers`)

/** Arguments: lists as JSON, upper and lower bound, how many. Answers the places of jobs and their indexes. */
export const scan = script(`
local out = {}
for _, key in ipairs(cjson.decode(ARGV[3])) do
  for _, member in ipairs(call('ZREVRANGEBYLEX', O .. 'x:' .. key, ARGV[4], ARGV[5], 'LIMIT', 0, ARGV[6])) do
    out[#out + 1] = { member, call('HGET', O .. 'j:' .. member:sub(18), 'x') }
  end
end
return out`)

/** Arguments: ids. Answers where they are listed. */
export const whereabouts = script(`
local out = {}
for at = 3, #ARGV do
  local x = call('HGET', O .. 'j:' .. ARGV[at], 'x')
  local _, member = nil, false
  if x then _, member = places(ARGV[at], x) end
  out[at - 2] = { member, x }
end
return out`)

/**
 * Moves what has fallen due, removes records and entries whose time has come, gives back what a Celery worker held for longer
 * than the visibility timeout, and forgets tasks that Celery workers took. Arguments: a cursor, that timeout.
 */
export const sweep = script(`
-- Marks a message as it was written, without reading and writing it again: numbers that Lua rounds stay what they are.
local function mark(env, field)
  local empty, count = env:gsub('"' .. field .. '":%s*{%s*}', '"' .. field .. '": {"redelivered": true}', 1)
  if count > 0 then return empty end
  return (env:gsub('"' .. field .. '":%s*{', '%0"redelivered": true, ', 1))
end

local function boundTo(exchange, key)
  if exchange == '' then return { key } end
  local found = {}
  for _, binding in ipairs(call('SMEMBERS', P .. '_kombu.binding.' .. exchange)) do
    local bound, pattern, queue = binding:match('^(.-)\\6\\22(.-)\\6\\22(.*)$')
    if bound == key and pattern == '' then found[#found + 1] = queue end
  end
  return found
end

for _, tag in ipairs(call('ZRANGEBYSCORE', INDEX, '-inf', clock[1] - ARGV[4] / 1000, 'LIMIT', 0, 10)) do
  local found, t = call('HGET', UNACKED, tag), task(tag)
  if not found then
    call('ZREM', INDEX, tag)
  elseif not t or not isHeld(tag, t) then
    -- What Python wrote: message, exchange, routing key.
    local env, exchange, key = found:match('^%[(.*}), "([^"\\\\]*)", "([^"\\\\]*)"%]$')
    local isRead, message = pcall(cjson.decode, env or '')
    local properties = isRead and type(message) == 'table' and message.properties
    local queues = type(properties) == 'table' and boundTo(exchange, key) or {}
    if #queues > 0 then
      local priority = tonumber(properties.priority) or 0
      call('HDEL', UNACKED, tag)
      call('ZREM', INDEX, tag)
      local again = mark(mark(env, 'headers'), 'delivery_info')
      for _, queue in ipairs(queues) do call('RPUSH', listOf(queue, 9 - priority), again) end
    end
  end
end
expire()
local ended = call('ZRANGEBYSCORE', O .. 'ends', '-inf', text(now), 'LIMIT', 0, 1000)
for _, key in ipairs(ended) do
  call('ZREM', O .. 'ends', key)
  call('ZREM', O .. 'entries', key)
  call('DEL', O .. 'e:' .. key)
end
tellStore(ended)
for _, queue in ipairs(call('SMEMBERS', O .. 'queues')) do ripen(queue) end
local from, healthy = ARGV[3], 0
for _ = 1, 40 do
  local members = call('ZRANGEBYLEX', O .. 'x:s:queued', from, '+', 'LIMIT', 0, 50)
  for _, member in ipairs(members) do
    from = '(' .. member
    local _, t = tasksOf(member:sub(18))
    if t and isGone(t.tag, t) then drop(t.tag, t) else healthy = healthy + 1 end
  end
  if #members < 50 then return '-' end
  if healthy >= 50 then break end
end
return from`)

/** Argument: a state and perhaps a queue. */
export const count = script(`
expire()
return call('ZCARD', O .. 'x:' .. ARGV[3])`)

export const queues = script(`
local out = {}
for _, queue in ipairs(call('SMEMBERS', O .. 'queues')) do
  ripen(queue)
  local ready, oldest = 0, false
  for _, level in ipairs(LEVELS) do
    ready = ready + call('LLEN', listOf(queue, level))
    local last = call('LINDEX', listOf(queue, level), -1)
    local index = last and call('HGET', O .. 't:' .. tagOf(last), 'index')
    local at = index and cjson.decode(index).at
    if at and (not oldest or at < oldest) then oldest = at end
  end
  local held, later = call('ZCARD', O .. 'h:' .. queue), call('ZCARD', O .. 'l:' .. queue)
  if ready + held + later == 0 then
    call('SREM', O .. 'queues', queue)
  else
    out[#out + 1] = { queue, ready, later, held, oldest }
  end
end
return out`)

/** Arguments: most, "queue" or "expired", and which. */
export const waiting = script(`
local max, out = tonumber(ARGV[3]), {}
if ARGV[4] == 'queue' then
  local queue = ARGV[5]
  ripen(queue)
  for _, level in ipairs(LEVELS) do
    local values = call('LRANGE', listOf(queue, level), -max, -1)
    for at = #values, 1, -1 do
      local id = call('HGET', O .. 't:' .. tagOf(values[at]), 'id')
      if id then out[#out + 1] = id end
    end
  end
  for _, tag in ipairs(call('ZRANGE', O .. 'l:' .. queue, 0, max)) do
    out[#out + 1] = call('HGET', O .. 't:' .. tag, 'id') or nil
  end
else
  for _, tag in ipairs(call('ZRANGEBYSCORE', O .. 'expires', '-inf', ARGV[5], 'LIMIT', 0, max + 100)) do
    local t = task(tag)
    if not t then
      call('ZREM', O .. 'expires', tag)
    elseif t.id and not call('ZSCORE', O .. 'h:' .. t.queue, tag) then
      out[#out + 1] = t.id
    end
  end
end
while #out > max do out[#out] = nil end
return out`)

const ENTRY = `
local function entryOf(key)
  local found = call('HMGET', O .. 'e:' .. key, 'v', 'r', 'u')
  if found[1] and (not found[3] or tonumber(found[3]) > now) then return { key, found[1], found[2] } end
  return false
end
`

export const storeGet = script(`${ENTRY}
local out = {}
for at = 3, #ARGV do out[at - 2] = entryOf(ARGV[at]) end
return out`)

/** Arguments: lower and upper bound, how many, whether backwards. */
export const storeList = script(`${ENTRY}
local min, max, limit, reverse = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6] == '1'
local out = {}
while #out < limit do
  local keys = reverse and call('ZREVRANGEBYLEX', O .. 'entries', max, min, 'LIMIT', 0, limit)
    or call('ZRANGEBYLEX', O .. 'entries', min, max, 'LIMIT', 0, limit)
  for _, key in ipairs(keys) do
    local found = entryOf(key)
    if found and #out < limit then out[#out + 1] = found end
    if reverse then max = '(' .. key else min = '(' .. key end
  end
  if #keys < limit then break end
end
return out`)

/** Arguments: operations as JSON, then values. */
export const storeWrite = script(`${ENTRY}
local operations, out = cjson.decode(ARGV[3]), {}
for _, o in ipairs(operations) do
  if o.expect then
    local found = entryOf(o.key)
    if o.expect ~= (found and found[3] or '') then return false end
  end
end
local changed = {}
for at, o in ipairs(operations) do
  out[at] = ''
  if o.value or o.removes then changed[#changed + 1] = o.key end
  local own = O .. 'e:' .. o.key
  if o.value or o.removes then
    call('DEL', own)
    call('ZREM', O .. 'ends', o.key)
  end
  if o.removes then call('ZREM', O .. 'entries', o.key) end
  if o.value then
    out[at] = number()
    call('HSET', own, 'v', ARGV[o.value], 'r', out[at])
    call('ZADD', O .. 'entries', 0, o.key)
    if o.ttl then
      call('HSET', own, 'u', text(now + o.ttl))
      call('ZADD', O .. 'ends', text(now + o.ttl), o.key)
    end
  end
end
tellStore(changed)
return out`)

/** All of them, loaded when a connection opens. */
export const SCRIPTS: ReadonlyArray<Script> = [
  ...[open, publish, take, giveBack, extend, read, commit, scan, whereabouts, sweep, count, queues, waiting],
  ...[storeGet, storeList, storeWrite],
]
