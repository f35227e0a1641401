/** Where a task stands among those that wait for the same limit, as text whose order is theirs. Pure. */
import { createHash } from "node:crypto"
import { FRONT_LEVEL } from "../../protocol/message.ts"

/** What orders tasks: the same as in their queue. */
export interface Standing {
  /** 0–9, or the front, which is above them. */
  readonly level: number
  /**
   * Of its delivery. Not the time of submission, which is by the clock of whoever submitted and the same for a whole
   * batch: the transport's own order of one queue, and of all queues where it counts them together, as those that ship do.
   */
  readonly sequence: number
  readonly queue: string
  readonly id: string
}

/** 36¹¹ is above 2⁵³. */
const SEQUENCE_DIGITS = 11
/** Sequences of two queues may be the same. */
const HASH_DIGITS = 8

/** The first one comes first in order of bytes. The same however often the task is put off. */
export const placeOf = ({ level, sequence, queue, id }: Standing): string => {
  const above = (FRONT_LEVEL - level).toString(36)
  const number = Math.max(0, Math.floor(sequence)).toString(36).padStart(SEQUENCE_DIGITS, "0")
  const hash = createHash("sha256").update(`${queue}\n${id}`).digest("hex").slice(0, HASH_DIGITS)
  return `${above}${number}${hash}`
}

/** Just behind a place, before all others that are behind it. */
export const behind = (place: string): string => `${place}+`

export const earliest = (one: string | undefined, other: string): string =>
  one === undefined || other < one ? other : one
