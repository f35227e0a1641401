/**
 * Decodes MessagePack from untrusted senders. The library's decoder allocates lists as long as the bytes announce (a few
 * bytes could ask for gigabytes), silently repairs broken UTF-8 and does not bound the depth; this one checks everything.
 * Throws a RangeError on values that are nested too deep, and a SyntaxError on all other malformed bytes.
 */
import { ExtData } from "@msgpack/msgpack"
import { EARLIEST_MS, ExactDate, LATEST_MS } from "../exact.ts"
import { isSafeEntry, unsafeKey } from "../guards.ts"
import { exactDecoder } from "../text.ts"
import { formatTime } from "../time.ts"
import { MAX_DEPTH, tooDeep } from "./codec.ts"

/** Extension type of a timestamp. */
export const TIMESTAMP = -1

class Reader {
  readonly #bytes: Uint8Array
  readonly #view: DataView
  #at = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  /** Whether all bytes have been read. */
  get done(): boolean {
    return this.#at === this.#bytes.length
  }

  /** Takes the next `size` bytes, and returns where they begin. */
  #take(size: number): number {
    const at = this.#at
    if (at + size > this.#bytes.length) throw new SyntaxError("the bytes end too early")
    this.#at = at + size
    return at
  }

  #length(size: 1 | 2 | 4): number {
    const at = this.#take(size)
    return size === 1 ? this.#view.getUint8(at) : size === 2 ? this.#view.getUint16(at) : this.#view.getUint32(at)
  }

  #text(length: number): string {
    const at = this.#take(length)
    // Nearly all text is short ASCII, which is faster to decode by hand.
    if (length <= 16) {
      let text = ""
      for (let index = at; index < at + length; index++) {
        const byte = this.#bytes[index] ?? 0
        if (byte > 0x7f) return this.#decoded(at, length)
        text += String.fromCharCode(byte)
      }
      return text
    }
    return this.#decoded(at, length)
  }

  #decoded(at: number, length: number): string {
    try {
      return exactDecoder.decode(this.#bytes.subarray(at, at + length))
    } catch {
      throw new SyntaxError("text is not UTF-8")
    }
  }

  #binary(length: number): Uint8Array {
    const at = this.#take(length)
    return this.#bytes.slice(at, at + length)
  }

  #extension(length: number): ExactDate | ExtData {
    const type = this.#view.getInt8(this.#take(1))
    const data = this.#binary(length)
    return (type === TIMESTAMP ? timestampOf(data) : undefined) ?? new ExtData(type, data)
  }

  #list(length: number, depth: number): unknown {
    // The list grows while it is read, because the announced length may be false.
    const list: Array<unknown> = []
    for (let index = 0; index < length; index++) list.push(this.read(depth - 1))
    return list
  }

  #map(length: number, depth: number): unknown {
    const map: Record<string, unknown> = {}
    for (let index = 0; index < length; index++) {
      const key = this.#key()
      const value = this.read(depth - 1)
      if (!isSafeEntry(key, value)) throw new SyntaxError(unsafeKey(key))
      map[key] = value
    }
    return map
  }

  #key(): string {
    const byte = this.#view.getUint8(this.#take(1))
    if (byte >= 0xa0 && byte <= 0xbf) return this.#text(byte & 0x1f)
    if (byte === 0xd9) return this.#text(this.#length(1))
    if (byte === 0xda) return this.#text(this.#length(2))
    if (byte === 0xdb) return this.#text(this.#length(4))
    // kombu 5.6 refuses them as well (strict_map_key).
    throw new SyntaxError("a key of a map is not text")
  }

  /** The next value. `depth`: how many levels of lists and maps may follow. */
  read(depth: number): unknown {
    if (depth < 0) throw tooDeep()
    const byte = this.#view.getUint8(this.#take(1))
    if (byte < 0x80) return byte
    if (byte < 0x90) return this.#map(byte & 0x0f, depth)
    if (byte < 0xa0) return this.#list(byte & 0x0f, depth)
    if (byte < 0xc0) return this.#text(byte & 0x1f)
    if (byte >= 0xe0) return byte - 0x100
    switch (byte) {
      case 0xc0:
        return null
      case 0xc2:
        return false
      case 0xc3:
        return true
      case 0xc4:
        return this.#binary(this.#length(1))
      case 0xc5:
        return this.#binary(this.#length(2))
      case 0xc6:
        return this.#binary(this.#length(4))
      case 0xc7:
        return this.#extension(this.#length(1))
      case 0xc8:
        return this.#extension(this.#length(2))
      case 0xc9:
        return this.#extension(this.#length(4))
      case 0xca:
        return this.#view.getFloat32(this.#take(4))
      case 0xcb:
        return this.#view.getFloat64(this.#take(8))
      case 0xcc:
        return this.#view.getUint8(this.#take(1))
      case 0xcd:
        return this.#view.getUint16(this.#take(2))
      case 0xce:
        return this.#view.getUint32(this.#take(4))
      case 0xcf:
        return smallest(this.#view.getBigUint64(this.#take(8)))
      case 0xd0:
        return this.#view.getInt8(this.#take(1))
      case 0xd1:
        return this.#view.getInt16(this.#take(2))
      case 0xd2:
        return this.#view.getInt32(this.#take(4))
      case 0xd3:
        return smallest(this.#view.getBigInt64(this.#take(8)))
      case 0xd4:
        return this.#extension(1)
      case 0xd5:
        return this.#extension(2)
      case 0xd6:
        return this.#extension(4)
      case 0xd7:
        return this.#extension(8)
      case 0xd8:
        return this.#extension(16)
      case 0xd9:
        return this.#text(this.#length(1))
      case 0xda:
        return this.#text(this.#length(2))
      case 0xdb:
        return this.#text(this.#length(4))
      case 0xdc:
        return this.#list(this.#length(2), depth)
      case 0xdd:
        return this.#list(this.#length(4), depth)
      case 0xde:
        return this.#map(this.#length(2), depth)
      case 0xdf:
        return this.#map(this.#length(4), depth)
      default:
        throw new SyntaxError("the byte 0xc1 is invalid")
    }
  }
}

/** The integer as a number where it fits exactly, else as a bigint. */
const smallest = (value: bigint): number | bigint => {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

/** A timestamp of 4, 8 or 12 bytes; nothing when its length is another or it lies outside the years 1–9999. */
const timestampOf = (data: Uint8Array): ExactDate | undefined => {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  let seconds: number
  let nanos = 0
  if (data.length === 4) {
    seconds = view.getUint32(0)
  } else if (data.length === 8) {
    const high = view.getUint32(0)
    nanos = high >>> 2
    seconds = (high & 3) * 0x1_0000_0000 + view.getUint32(4)
  } else if (data.length === 12) {
    nanos = view.getUint32(0)
    seconds = Number(view.getBigInt64(4))
  } else {
    return undefined
  }
  const whole = seconds * 1000
  if (whole < EARLIEST_MS || whole > LATEST_MS || nanos > 999_999_999) return undefined
  const ms = whole + Math.floor(nanos / 1_000_000)
  if (nanos % 1000 === 0) return new ExactDate(ms, formatTime(ms, (nanos / 1000) % 1000))
  const text = formatTime(whole)
  return new ExactDate(ms, `${text.slice(0, 19)}.${String(nanos).padStart(9, "0")}${text.slice(19)}`)
}

/** Decodes bytes that are exactly one value. */
export const readMsgpack = (bytes: Uint8Array): unknown => {
  const reader = new Reader(bytes)
  const value = reader.read(MAX_DEPTH)
  if (!reader.done) throw new SyntaxError("more bytes follow after the value")
  return value
}
