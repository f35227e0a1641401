/**
 * What is packed into one integer or one piece of text: places in a queue, and tokens of deliveries. Pure.
 *
 * All numbers come from one counter of the file, which only rises: the fence of a delivery is higher than every earlier one.
 */
import { FRONT_LEVEL } from "../../../runtime/protocol/message.ts"

// ── place ────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** 2⁴⁸ orders per level: eleven levels stay exact in a double. */
const ORDERS = 2 ** 48

/** Where a task stands in its queue: level first (high before low), then order. Ascending. */
export const placeOf = (level: number, order: number): number => (FRONT_LEVEL - level) * ORDERS + order

export const levelAt = (place: number): number => FRONT_LEVEL - Math.floor(place / ORDERS)

export const orderAt = (place: number): number => place % ORDERS

export const isLevel = (level: number): boolean => Number.isInteger(level) && level >= 0 && level <= FRONT_LEVEL

// ── fence, token ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** 36¹¹ is above 2⁵³: all fences have one length, so that they compare as text. */
const FENCE_LENGTH = 11

export const fenceText = (fence: number): string => fence.toString(36).padStart(FENCE_LENGTH, "0")

/** One delivery: the row of its task, and its fence. */
export interface Token {
  readonly seq: number
  readonly fence: number
}

const FENCE = /^[0-9a-z]{11}$/

/** `fence` is a fence as text. */
export const tokenText = (seq: number, fence: string): string => `${seq}.${fence}`

export const readToken = (token: string): Token | undefined => {
  const dot = token.length - FENCE_LENGTH - 1
  const fence = token.slice(dot + 1)
  const seq = Number(token.slice(0, dot))
  if (dot < 1 || token[dot] !== "." || !Number.isSafeInteger(seq) || seq < 1 || !FENCE.test(fence)) return undefined
  return { seq, fence: Number.parseInt(fence, 36) }
}
