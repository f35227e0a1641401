/**
 * Values packed into one integer or one text: a task's place in its queue, and the token of a delivery. Pure.
 *
 * All numbers come from one counter of the file, which only rises, so that the fence of a delivery is higher than every
 * earlier one.
 */
import { FRONT_LEVEL } from "../../../runtime/protocol/message.ts"

// ── place ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** 2⁴⁸ orders fit into a level: with eleven levels a place stays an exact integer in a double. */
const ORDERS = 2 ** 48

/** Sorts the tasks of a queue in ascending order: by level, high before low, then by the order of publishing. */
export const placeOf = (level: number, order: number): number => (FRONT_LEVEL - level) * ORDERS + order

export const levelAt = (place: number): number => FRONT_LEVEL - Math.floor(place / ORDERS)

export const orderAt = (place: number): number => place % ORDERS

export const isLevel = (level: number): boolean => Number.isInteger(level) && level >= 0 && level <= FRONT_LEVEL

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
