/** Scripts of queues: they publish, deliver, lease, give back and count tasks. Each export is one script. */
import { script } from "./scripts.ts"

/** Messages that one sweep searches for those that Celery workers have taken. */
const MAX_SEARCHED = 10_000

/**
 * Runs whenever a connection opens, and returns the time of the server. Raises the counter to the time in microseconds: a
 * server that was ended suddenly may have lost its last changes, and must not use a number again.
 */
export const open = script(`
local first = call('TIME')
local least = first[1] * 1000000 + first[2]
if tonumber(call('GET', OWN .. 'counter') or '0') < least then call('SET', OWN .. 'counter', text(least)) end
return now`)

/** Arguments: tasks as JSON, then their messages. Returns 1 for each task that was stored, 0 for a duplicate. */
export const publish = script(`
local answers = {}
for at, p in ipairs(cjson.decode(ARGV[3])) do answers[at] = enqueue(p) and 1 or 0 end
announceJobs()
return answers`)

/**
 * Arguments: most tasks in all, most of one queue before the next one has its turn, the lease in milliseconds, queues as
 * JSON. Returns two values for each delivery (see `deliver`); without any, the milliseconds until a task of these queues is
 * due, or -1.
 */
export const take = script(`
local max, turn, lease, queues = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), cjson.decode(ARGV[6])
local out = {}

local leaseEnd, takenAt = text(now + lease), clock[1] .. '.' .. string.format('%06d', clock[2])
local index, held = {}, {}

-- Notes that a message was taken, and adds two values to the answer: level, sequence, whether this is the first delivery,
-- whether another program's message may have the id of a job, fence, number of deliveries, position of the queue in the
-- request and tag, as one text; and the message.
local function deliver(value, queue, level, address, position)
  local tag, env = tagOf(value)
  local entry = '[' .. value .. address
  if call('HSETNX', UNACKED, tag, entry) == 0 then
    tag = 'callboard-' .. nextNumber()
    call('HSET', UNACKED, tag, entry)
  end
  local found = call('HMGET', OWN .. 't:' .. tag, 'level', 'seq', 'n', 'id')
  local isOwn, fields, id = ownTagOf(value), {}, found[4]
  if not found[2] then fields, id = adopt(tag, value, env, queue, level) end
  local seq, n, fence = found[2] or fields[4], (found[3] or 0) + 1, nextNumber()
  local known = found[1] or fields[2]
  local own = OWN .. 't:' .. tag
  -- A message of ours may have come back after its task was removed.
  if not found[2] or not isOwn then
    fields[#fields + 1], fields[#fields + 2] = 'queue', queue
    if found[2] then call('HDEL', own, 'env') end
  end
  call('HSET', own, 'fence', fence, 'n', n, 'size', #entry, unpack(fields))
  -- A message without a usable tag is not noted for kombu's visibility timeout: kombu would fail to restore it.
  if tag:sub(1, 10) ~= 'callboard-' then
    index[#index + 1] = takenAt
    index[#index + 1] = tag
  end
  held[#held + 1] = leaseEnd
  held[#held + 1] = tag
  local isExternal = not (isOwn and found[2]) and not (n == 1 and id and isAlone(id))
  local isFirst = n == 1 and not (value:find('"redelivered"', 1, true) and value:find('"redelivered"%s*:%s*true'))
  out[#out + 1] = table.concat({ known, seq, isFirst and 1 or 0, isExternal and 1 or 0, fence, n, position, tag }, ' ')
  out[#out + 1] = value
end

-- Stores the notes about all tasks that were taken from a queue, in few commands.
local function note(queue)
  for _, each in ipairs({ { INDEX, index }, { OWN .. 'h:' .. queue, held } }) do
    for at = 1, #each[2], 1000 do
      call('ZADD', each[1], unpack(each[2], at, math.min(at + 999, #each[2])))
    end
  end
  index, held = {}, {}
end

for _, queue in ipairs(queues) do requeueDue(queue) end
local before
repeat
  before = #out
  for at, queue in ipairs(queues) do
    local left, address = math.min(turn, max - #out / 2), ',"",' .. cjson.encode(queue) .. ']'
    for _, level in ipairs(LEVELS) do
      local key = levelKey(queue, level)
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
    local found = call('ZRANGE', OWN .. kind .. queue, 0, 0, 'WITHSCORES')
    if found[2] and (not soon or tonumber(found[2]) < soon) then soon = tonumber(found[2]) end
  end
end
return soon and math.max(0, soon - now) or -1`)

/** Arguments: tokens. Gives their tasks back at once, and does not count these deliveries. */
export const handBack = script(`
for at = 3, #ARGV do
  local tag, t = leasedTask(ARGV[at], true)
  if tag then
    call('HINCRBY', OWN .. 't:' .. tag, 'n', -1)
    release(tag, t, 0)
  end
end
return 0`)

/** Arguments: the lease in milliseconds, tokens. Returns 1 for each token whose delivery still has its task, else 0. */
export const extend = script(`
local answers = {}
for at = 4, #ARGV do
  local tag, t = leasedTask(ARGV[at])
  if tag then
    call('ZADD', OWN .. 'h:' .. t.queue, text(now + ARGV[3]), tag)
    call('ZADD', INDEX, 'XX', clock[1], tag)
  end
  answers[at - 3] = tag and 1 or 0
end
return answers`)

/**
 * Every connected process runs this once a second. Puts back messages that a Celery worker has held for longer than the
 * visibility timeout; removes records and entries of the store whose time to live is over; moves due tasks into their lists;
 * notes queues into which another program has put messages: those that this process listens to, and those that a binding of
 * kombu names, one part of the server's keys per call; and removes what is known of tasks that Celery workers have taken, one
 * part of the queued jobs per call. Arguments: where that part of the jobs begins, the visibility timeout in milliseconds, where
 * that part of the keys begins, the pattern of the bindings' keys, queues as JSON. Returns where the next parts begin.
 */
export const sweep = script(`
-- Adds "redelivered" to a map in a message by a change of its text: Lua would round large numbers if it parsed the message.
local function mark(env, field)
  local empty, count = env:gsub('"' .. field .. '":%s*{%s*}', '"' .. field .. '": {"redelivered": true}', 1)
  if count > 0 then return empty end
  return (env:gsub('"' .. field .. '":%s*{', '%0"redelivered": true, ', 1))
end

-- The queues that are bound to an exchange by a routing key. The exchange without a name has every queue under its own name.
local function boundTo(exchange, key)
  if exchange == '' then return { key } end
  local found = {}
  for _, binding in ipairs(call('SMEMBERS', KOMBU .. '_kombu.binding.' .. exchange)) do
    local bound, pattern, queue = binding:match('^(.-)\\6\\22(.-)\\6\\22(.*)$')
    if bound == key and pattern == '' then found[#found + 1] = queue end
  end
  return found
end

for _, tag in ipairs(call('ZRANGEBYSCORE', INDEX, '-inf', clock[1] - ARGV[4] / 1000, 'LIMIT', 0, 10)) do
  local found, t = call('HGET', UNACKED, tag), loadTask(tag)
  if not found then
    call('ZREM', INDEX, tag)
  elseif not t or not isLeased(tag, t) then
    -- Python's JSON of a list: message, exchange, routing key.
    local env, exchange, key = found:match('^%[(.*}), "([^"\\\\]*)", "([^"\\\\]*)"%]$')
    local isRead, message = pcall(cjson.decode, env or '')
    local properties = isRead and type(message) == 'table' and message.properties
    local queues = type(properties) == 'table' and boundTo(exchange, key) or {}
    if #queues > 0 then
      local priority = tonumber(properties.priority) or 0
      call('HDEL', UNACKED, tag)
      call('ZREM', INDEX, tag)
      local again = mark(mark(env, 'headers'), 'delivery_info')
      for _, queue in ipairs(queues) do call('RPUSH', levelKey(queue, 9 - priority), again) end
    end
  end
end
removeEndedRecords()
local ended = call('ZRANGEBYSCORE', OWN .. 'ends', '-inf', NOW, 'LIMIT', 0, 1000)
for _, key in ipairs(ended) do
  call('ZREM', OWN .. 'ends', key)
  call('ZREM', OWN .. 'entries', key)
  call('DEL', OWN .. 'e:' .. key)
end
announceKeys(ended)
local function noteFilled(queue)
  for _, level in ipairs(LEVELS) do
    if call('EXISTS', levelKey(queue, level)) == 1 then return noteQueue(queue) end
  end
end
for _, queue in ipairs(cjson.decode(ARGV[7])) do noteFilled(queue) end
local scanned = call('SCAN', ARGV[5], 'MATCH', ARGV[6], 'COUNT', 1000)
for _, key in ipairs(scanned[2]) do
  -- The queues of remote control and events hold no tasks.
  if not key:find('celery%.pidbox$') and not key:find('celeryev$') then
    for _, binding in ipairs(call('SMEMBERS', key)) do noteFilled(binding:match('([^\\6\\22]*)$')) end
  end
end
for _, queue in ipairs(call('SMEMBERS', OWN .. 'queues')) do requeueDue(queue) end
-- The server does nothing else meanwhile, so few messages are searched in one call.
local from, healthy, searched = ARGV[3], 0, 0
for _ = 1, 40 do
  local members = call('ZRANGEBYLEX', OWN .. 'x:s:queued', from, '+', 'LIMIT', 0, 50)
  for _, member in ipairs(members) do
    from = '(' .. member
    local _, t = tasksOf(member:sub(18))
    local isGone, looked = false, 0
    if t then isGone, looked = isMissing(t.tag, t) end
    if isGone then forget(t.tag, t) else healthy = healthy + 1 end
    searched = searched + looked
    if searched >= ${MAX_SEARCHED} then return { from, scanned[1] } end
  end
  if #members < 50 then from = '-' end
  if #members < 50 or healthy >= 50 then break end
end
return { from, scanned[1] }`)

/**
 * Returns for each queue its name, how many tasks are ready, scheduled and in flight, and when the oldest ready one was
 * submitted.
 */
export const queueDepths = script(`
local out = {}
for _, queue in ipairs(call('SMEMBERS', OWN .. 'queues')) do
  requeueDue(queue)
  noteNext(queue)
  local ready, oldest = 0, false
  for _, level in ipairs(LEVELS) do
    ready = ready + call('LLEN', levelKey(queue, level))
    local last = call('LINDEX', levelKey(queue, level), -1)
    local index = last and call('HGET', OWN .. 't:' .. tagOf(last), 'index')
    local at = index and cjson.decode(index).at
    if at and (not oldest or at < oldest) then oldest = at end
  end
  local held, later = call('ZCARD', OWN .. 'h:' .. queue), call('ZCARD', OWN .. 'l:' .. queue)
  if ready + held + later == 0 then
    call('SREM', OWN .. 'queues', queue)
    call('SREM', OWN .. 'shared', queue)
  else
    out[#out + 1] = { queue, ready, later, held, oldest }
  end
end
return out`)

/**
 * Arguments: how many ids, then `queue` and a name, or `expired` and a time. Returns the ids of jobs that wait in that
 * queue, in the order in which they will be taken, or of jobs that have expired by then and are not in flight.
 */
export const waiting = script(`
local max, out = tonumber(ARGV[3]), {}
if ARGV[4] == 'queue' then
  local queue = ARGV[5]
  requeueDue(queue)
  for _, level in ipairs(LEVELS) do
    local values = call('LRANGE', levelKey(queue, level), -max, -1)
    for at = #values, 1, -1 do
      local own = ownTagOf(values[at])
      local id = own and call('HGET', OWN .. 't:' .. own, 'id') or noteWaiting(values[at], queue, level)
      if id then out[#out + 1] = id end
    end
  end
  for _, tag in ipairs(call('ZRANGE', OWN .. 'l:' .. queue, 0, max)) do
    out[#out + 1] = call('HGET', OWN .. 't:' .. tag, 'id') or nil
  end
else
  for _, tag in ipairs(call('ZRANGEBYSCORE', OWN .. 'expires', '-inf', ARGV[5], 'LIMIT', 0, max + 100)) do
    local t = loadTask(tag)
    if not t then
      call('ZREM', OWN .. 'expires', tag)
    elseif t.id and not call('ZSCORE', OWN .. 'h:' .. t.queue, tag) then
      out[#out + 1] = t.id
    end
  end
end
while #out > max do out[#out] = nil end
return out`)
