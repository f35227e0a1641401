/** Generates ids: UUIDv7, so that ids rise with time and indexes stay compact. */

/** Version 7, before the twelve bits of the counter. */
const VERSION = 0x7000

/** Where the last 64 bits of an id begin: the variant and randomness, which an id of version 4 has there as well. */
const RANDOM_AT = 19

/** Random digits in the form of a UUID. A page of another origin than https or this machine has no `randomUUID`. */
const randomDigits = (): string => {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID()
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")
}

let lastMs = 0
/** The digits of `lastMs`. */
let prefix = ""
let counter = 0

const setMs = (ms: number): void => {
  lastMs = ms
  const digits = ms.toString(16).padStart(12, "0")
  prefix = `${digits.slice(0, 8)}-${digits.slice(8)}-`
}

/** Forgets what ids were made until now. Tests call it when they replace the clock or the source of randomness. */
export const startIdsAnew = (): void => {
  lastMs = 0
}

/** A new id (RFC 9562 UUIDv7): milliseconds, then a counter within the millisecond, then randomness. Rises within a process. */
export const generateId = (now: number = Date.now()): string => {
  if (now > lastMs) {
    setMs(now)
    // Starts low, so that 2,048 ids at least fit into one millisecond before the clock is run ahead of.
    counter = Number.parseInt(randomDigits().slice(0, 3), 16) & 0x7ff
  } else if (++counter > 0xfff) {
    setMs(lastMs + 1)
    counter = 0
  }
  return `${prefix}${(VERSION | counter).toString(16)}-${randomDigits().slice(RANDOM_AT)}`
}
