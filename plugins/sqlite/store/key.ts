/** Keys of the store as bytes: in the order of their UTF-8, with everything that a key may hold. Pure. */
import { TransportError } from "../../../runtime/transport/mod.ts"

const MAX_BYTES = 512

const encoder = new TextEncoder()
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

export const keyToBytes = (key: string): Uint8Array => encoder.encode(key)

export const keyFromBytes = (bytes: Uint8Array): string => decoder.decode(bytes)

/** Fails with `invalid`. */
export const checkKey = (key: string): Uint8Array => {
  const bytes = encoder.encode(key)
  if (bytes.length >= 1 && bytes.length <= MAX_BYTES && key.isWellFormed()) return bytes
  throw new TransportError("invalid", `a key is 1 to ${MAX_BYTES} bytes of UTF-8, not ${bytes.length}`)
}

/** The first bytes after everything that starts with `prefix`. */
export const afterPrefix = (prefix: Uint8Array): Uint8Array => {
  for (let at = prefix.length - 1; at >= 0; at--) {
    const byte = prefix[at] ?? 0
    if (byte < 0xff) {
      const end = prefix.slice(0, at + 1)
      end[at] = byte + 1
      return end
    }
  }
  // No UTF-8 holds this byte: after every key.
  return Uint8Array.of(0xff)
}

/** The first bytes after this very key. */
export const afterKey = (key: Uint8Array): Uint8Array => {
  const next = new Uint8Array(key.length + 1)
  next.set(key)
  return next
}

export const compareKeys = (a: Uint8Array, b: Uint8Array): number => {
  const length = Math.min(a.length, b.length)
  for (let at = 0; at < length; at++) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0)
    if (difference !== 0) return difference
  }
  return a.length - b.length
}
