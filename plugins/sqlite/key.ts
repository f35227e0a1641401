/** Keys of the store as bytes: in the order of their UTF-8, with everything that a key may hold. Pure. */
import { TransportError } from "../../runtime/transport.ts"

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

/** The first bytes after everything that starts with `prefix`; `undefined` when nothing comes after it. */
export const afterPrefix = (prefix: Uint8Array): Uint8Array | undefined => {
  const end = prefix.slice()
  for (let at = end.length - 1; at >= 0; at--) {
    const byte = end[at] ?? 0
    if (byte < 0xff) {
      end[at] = byte + 1
      return end.subarray(0, at + 1)
    }
  }
  return undefined
}
