/** Generates ids: UUIDv7, so that ids rise with time and indexes stay compact. */

const bytes = new Uint8Array(16)
const HEX = Array.from({ length: 256 }, (_, value) => value.toString(16).padStart(2, "0"))
let pool = new Uint8Array(0)
let used = 0
let lastMs = 0
let counter = 0

/** Takes random bytes from a pool: one call into the system's generator serves 256 ids. */
const random = (length: number): Uint8Array => {
  if (used + length > pool.length) {
    pool = crypto.getRandomValues(new Uint8Array(4096))
    used = 0
  }
  used += length
  return pool.subarray(used - length, used)
}

/** Forgets what ids were made until now. Tests call it when they replace the clock or the source of randomness. */
export const startIdsAnew = (): void => {
  pool = new Uint8Array(0)
  used = 0
  lastMs = 0
}

/** A new id (RFC 9562 UUIDv7): milliseconds, then a counter within the millisecond, then randomness. Rises within a process. */
export const generateId = (now: number = Date.now()): string => {
  if (now > lastMs) {
    lastMs = now
    const seed = random(2)
    // Starts low, so that 2,048 ids at least fit into one millisecond before the clock is run ahead of.
    counter = (((seed[0] ?? 0) << 8) | (seed[1] ?? 0)) & 0x7ff
  } else if (++counter > 0xfff) {
    lastMs++
    counter = 0
  }
  const high = Math.floor(lastMs / 0x1_0000)
  bytes[0] = (high >>> 24) & 0xff
  bytes[1] = (high >>> 16) & 0xff
  bytes[2] = (high >>> 8) & 0xff
  bytes[3] = high & 0xff
  bytes[4] = (lastMs >>> 8) & 0xff
  bytes[5] = lastMs & 0xff
  bytes[6] = 0x70 | (counter >>> 8)
  bytes[7] = counter & 0xff
  bytes.set(random(8), 8)
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f)
  let text = ""
  for (let at = 0; at < 16; at++) {
    if (at === 4 || at === 6 || at === 8 || at === 10) text += "-"
    text += HEX[bytes[at] ?? 0]
  }
  return text
}
