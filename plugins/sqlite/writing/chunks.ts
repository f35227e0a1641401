/** Long lists as several pieces of work: no transaction gets long, and what cannot be stored is refused alone. */
import type { TransportError } from "../../../runtime/transport/mod.ts"
import { faultOf } from "../database/fault.ts"
import type { Transaction } from "./transaction.ts"
import type { Writer } from "./writer.ts"

/** Items in one piece of work: one to two milliseconds. */
const ITEMS = 256

/** Bytes in one piece of work. */
const BYTES = 2 * 1024 * 1024

export interface Failed {
  readonly status: "failed"
  readonly error: TransportError
}

export interface Handling<Item, Prepared, Answer> {
  /** Outside of the transaction; what it throws is the item's answer. */
  prepare(item: Item): Prepared
  /** Bytes that are written for an item. */
  size(prepared: Prepared): number
  /** Inside the transaction. May run more than once; only the last time counts. */
  run(transaction: Transaction, prepared: Prepared): Answer
}

interface Ready<Prepared> {
  readonly at: number
  readonly prepared: Prepared
}

/** One answer per item, in order. Never rejects: an error of the database is the answer of the items it concerns. */
export const inPortions = async <Item, Prepared, Answer>(
  writer: Writer,
  items: ReadonlyArray<Item>,
  handling: Handling<Item, Prepared, Answer>,
): Promise<ReadonlyArray<Answer | Failed>> => {
  const answers: Array<Answer | Failed> = new Array(items.length)
  const pieces: Array<Promise<void>> = []
  let portion: Array<Ready<Prepared>> = []
  let bytes = 0
  const send = (): void => {
    if (portion.length > 0) pieces.push(sendPortion(writer, portion, handling, answers))
    portion = []
    bytes = 0
  }
  items.forEach((item, at) => {
    try {
      const prepared = handling.prepare(item)
      portion.push({ at, prepared })
      bytes += handling.size(prepared)
    } catch (error) {
      answers[at] = failed(writer, error)
    }
    if (portion.length >= ITEMS || bytes >= BYTES) send()
  })
  send()
  await Promise.all(pieces)
  return answers
}

const sendPortion = async <Item, Prepared, Answer>(
  writer: Writer,
  portion: ReadonlyArray<Ready<Prepared>>,
  handling: Handling<Item, Prepared, Answer>,
  answers: Array<Answer | Failed>,
): Promise<void> => {
  try {
    await writer.do((transaction) => {
      for (const { at, prepared } of portion) answers[at] = handling.run(transaction, prepared)
    })
  } catch (error) {
    const answer = failed(writer, error)
    if (portion.length === 1 || answer.error.reason === "unavailable") {
      for (const { at } of portion) answers[at] = answer
      return
    }
    // One of them cannot be stored: each for itself.
    await Promise.all(portion.map((each) => sendPortion(writer, [each], handling, answers)))
  }
}

const failed = (writer: Writer, error: unknown): Failed => ({ status: "failed", error: faultOf(error, writer.label) })
