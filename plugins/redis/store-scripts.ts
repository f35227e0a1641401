/**
 * Scripts of the store: entries that workers share, each with a revision and perhaps a time to live. Each export is one
 * script.
 */
import { script } from "./scripts.ts"

/** Reads an entry of the store as key, value and revision; false where there is none, or its time to live is over. */
const ENTRY = `
local function entryOf(key)
  local found = call('HMGET', OWN .. 'e:' .. key, 'v', 'r', 'u')
  if found[1] and (not found[3] or tonumber(found[3]) > now) then return { key, found[1], found[2] } end
  return false
end
`

/** Arguments: keys. Returns their entries. */
export const getEntries = script(`${ENTRY}
local out = {}
for at = 3, #ARGV do out[at - 2] = entryOf(ARGV[at]) end
return out`)

/** Arguments: lower and upper bound, how many, 1 for descending order. Returns entries by key. */
export const listEntries = script(`${ENTRY}
local min, max, limit, reverse = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6] == '1'
local out = {}
while #out < limit do
  local keys = reverse and call('ZREVRANGEBYLEX', OWN .. 'entries', max, min, 'LIMIT', 0, limit)
    or call('ZRANGEBYLEX', OWN .. 'entries', min, max, 'LIMIT', 0, limit)
  for _, key in ipairs(keys) do
    local found = entryOf(key)
    if found and #out < limit then out[#out + 1] = found end
    if reverse then max = '(' .. key else min = '(' .. key end
  end
  if #keys < limit then break end
end
return out`)

/**
 * Arguments: operations as JSON, then the values that they refer to by position. Writes all of them, or none where a
 * revision is not the expected one. Returns false then, else the new revisions.
 */
export const writeEntries = script(`${ENTRY}
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
  local own = OWN .. 'e:' .. o.key
  if o.value or o.removes then
    call('DEL', own)
    call('ZREM', OWN .. 'ends', o.key)
  end
  if o.removes then call('ZREM', OWN .. 'entries', o.key) end
  if o.value then
    out[at] = nextNumber()
    call('HSET', own, 'v', ARGV[o.value], 'r', out[at])
    call('ZADD', OWN .. 'entries', 0, o.key)
    if o.ttl then
      call('HSET', own, 'u', text(now + o.ttl))
      call('ZADD', OWN .. 'ends', text(now + o.ttl), o.key)
    end
  end
end
announceKeys(changed)
return out`)
