/**
 * How the database stores ids, and values packed into one integer or one text: a task's place in its queue, and the token of
 * a delivery. Pure.
 *
 * An id that is a UUID becomes its 16 bytes, so that indexes over time-ordered ids stay small; any other text stays as it
 * is. Both directions are exact.
 *
 * All numbers come from one counter of the file, which only rises, so that the fence of a delivery is higher than every
 * earlier one.
 */
import type { SQLOutputValue } from "node:sqlite"
import { FRONT_LEVEL } from "../../../runtime/protocol/message.ts"
import { decoder, encoder } from "../../../runtime/protocol/text.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"

export type IdColumn = string | Uint8Array

/** Lower case only: an upper-case UUID would come back in lower case, and is stored as text instead. */
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

const UUID_BYTES = 16

/** Value of a hexadecimal digit by its character code. */
const DIGIT = new Uint8Array(128)
for (let digit = 0; digit < 16; digit++) DIGIT[digit.toString(16).charCodeAt(0)] = digit

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"))

const DASH = 45

export const idToColumn = (id: string): IdColumn => {
  if (id.length === 36 && UUID.test(id)) return uuidToBytes(id)
  // Deno 2.9 cuts text at a zero byte when it reads a column, so that such ids are stored as bytes.
  return id.includes("\0") ? withZeroes(id) : id
}

export const idFromColumn = (column: SQLOutputValue | IdColumn | undefined): string => {
  if (typeof column === "string") return column
  if (!(column instanceof Uint8Array)) throw new TransportError("internal", "the database contains a job without an id")
  if (column.length > UUID_BYTES) return decoder.decode(column.subarray(UUID_BYTES))
  let uuid = ""
  for (let at = 0; at < UUID_BYTES; at++) {
    if (at === 4 || at === 6 || at === 8 || at === 10) uuid += "-"
    uuid += HEX[column[at] ?? 0]
  }
  return uuid
}

const uuidToBytes = (id: string): Uint8Array => {
  const bytes = new Uint8Array(UUID_BYTES)
  let nibble = 0
  for (let at = 0; at < 36; at++) {
    const code = id.charCodeAt(at)
    if (code === DASH) continue
    const digit = DIGIT[code] ?? 0
    bytes[nibble >> 1] = nibble & 1 ? (bytes[nibble >> 1] ?? 0) | digit : digit << 4
    nibble++
  }
  return bytes
}

/** Bytes of an id with zeroes, behind 16 empty ones: longer than any UUID, so that the two cannot be mixed up. */
const withZeroes = (id: string): Uint8Array => {
  const encoded = encoder.encode(id)
  const bytes = new Uint8Array(UUID_BYTES + encoded.length)
  bytes.set(encoded, UUID_BYTES)
  return bytes
}

// ── place ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** 2⁴⁸ orders fit into a level: with eleven levels a place stays an exact integer in a double. */
const ORDERS = 2 ** 48

/** Sorts the tasks of a queue in ascending order: by level, high before low, then by the order of publishing. */
export const queueOrderOf = (level: number, order: number): number => (FRONT_LEVEL - level) * ORDERS + order

export const levelAt = (place: number): number => FRONT_LEVEL - Math.floor(place / ORDERS)

export const orderAt = (place: number): number => place % ORDERS

// ── fence, token ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** 36¹¹ is above 2⁵³, so that all fences fit into this length, and padded ones compare as text. */
const FENCE_LENGTH = 11

export const fenceText = (fence: number): string => fence.toString(36).padStart(FENCE_LENGTH, "0")

/** One delivery: the row of its task, and its fence. */
export interface Token {
  readonly seq: number
  readonly fence: number
}

const FENCE = /^[0-9a-z]{11}$/

/** A token of a task's row and a fence as text. */
export const tokenText = (seq: number, fence: string): string => `${seq}.${fence}`

export const readToken = (token: string): Token | undefined => {
  const dot = token.length - FENCE_LENGTH - 1
  const fence = token.slice(dot + 1)
  const seq = Number(token.slice(0, dot))
  if (dot < 1 || token[dot] !== "." || !Number.isSafeInteger(seq) || seq < 1 || !FENCE.test(fence)) return undefined
  return { seq, fence: Number.parseInt(fence, 36) }
}
