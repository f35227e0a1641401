/**
 * What is packed into one integer or one piece of text: publish keys, places in a queue, fences and tokens. Pure.
 *
 * All come from one counter of the file, which only rises: a fence is higher than every earlier one of any job.
 */
import { FRONT_LEVEL, type Posting } from "../../../runtime/protocol/message.ts"

// ── publish key ──────────────────────────────────────────────────────────────────────────────────────────────────────

const MAX_RUN = 2 ** 20
const MAX_RETRIES = 2 ** 20
const MAX_HOPS = 2 ** 12

type Key = Pick<Posting, "run" | "retries" | "hops">

/**
 * A publish key as one integer, in the order in which the postings of a job follow one another; `undefined` when a part
 * is out of range. 0 is left for "none was published".
 */
export const nthOf = ({ run, retries, hops = 0 }: Key): number | undefined => {
  const fits = isPart(run, MAX_RUN) && run > 0 && isPart(retries, MAX_RETRIES) && isPart(hops, MAX_HOPS)
  return fits ? (run * MAX_RETRIES + retries) * MAX_HOPS + hops : undefined
}

export const keyOf = (nth: number): Required<Key> => {
  const hops = nth % MAX_HOPS
  const rest = (nth - hops) / MAX_HOPS
  const retries = rest % MAX_RETRIES
  return { run: (rest - retries) / MAX_RETRIES, retries, hops }
}

const isPart = (value: number, end: number): boolean => Number.isSafeInteger(value) && value >= 0 && value < end

/** Whether a publish key as text (`<id>/<run>/<retries>[/<hops>]`) carries the job on from this posting. */
export const isAhead = (successor: string, id: string, posting: Key): boolean => {
  const [run = 0, retries = 0, hops = 0] = successor
    .slice(id.length + 1)
    .split("/")
    .map(Number)
  return (nthOf({ run, retries, hops }) ?? 0) > (nthOf(posting) ?? 0)
}

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
  /** The fence as others see it. */
  readonly fenceText: string
}

const FENCE = /^[0-9a-z]{11}$/

/** `fence` is a fence as text. */
export const tokenText = (seq: number, fence: string): string => `${seq}.${fence}`

export const readToken = (token: string): Token | undefined => {
  const dot = token.length - FENCE_LENGTH - 1
  const fence = token.slice(dot + 1)
  const seq = Number(token.slice(0, dot))
  if (dot < 1 || token[dot] !== "." || !Number.isSafeInteger(seq) || seq < 1 || !FENCE.test(fence)) return undefined
  return { seq, fence: Number.parseInt(fence, 36), fenceText: fence }
}
