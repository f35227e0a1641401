/** Long lists as several pieces of work: no transaction gets long, and what cannot be stored is refused alone. */
import type { TransportError } from "../../runtime/transport.ts"
import { faultOf } from "./fault.ts"
import type { Transaction } from "./transaction.ts"
import type { Writer } from "./writer.ts"

/** Items in one piece of work: one to two milliseconds. */
const ITEMS = 256

/** Bytes in one piece of work. */
const BYTES = 2 * 1024 * 1024

interface Handling<Item, Prepared, Answer> {
  /** Outside of the transaction; may throw. */
  prepare(item: Item): Prepared
  size(prepared: Prepared): number
  /** Inside the transaction. */
  run(transaction: Transaction, prepared: Prepared): Answer
  failed(error: TransportError): Answer
  /** Names the database in messages. */
  readonly label: string
}

interface Ready<Prepared> {
  readonly at: number
  readonly prepared: Prepared
}

/** One answer per item, in order. Never rejects: an error of the database is the answer of the items it concerns. */
export const inPortions = async <Item, Prepared, Answer>(
  items: ReadonlyArray<Item>,
  writer: Writer,
  handling: Handling<Item, Prepared, Answer>,
): Promise<ReadonlyArray<Answer>> => {
  const answers: Array<Answer> = new Array(items.length)
  const pieces: Array<Promise<void>> = []
  let portion: Array<Ready<Prepared>> = []
  let bytes = 0
  const send = (): void => {
    if (portion.length > 0) pieces.push(sendPortion(portion, answers, writer, handling))
    portion = []
    bytes = 0
  }
  items.forEach((item, at) => {
    try {
      const prepared = handling.prepare(item)
      portion.push({ at, prepared })
      bytes += handling.size(prepared)
    } catch (error) {
      answers[at] = handling.failed(faultOf(error, handling.label))
    }
    if (portion.length >= ITEMS || bytes >= BYTES) send()
  })
  send()
  await Promise.all(pieces)
  return answers
}

const sendPortion = async <Item, Prepared, Answer>(
  portion: ReadonlyArray<Ready<Prepared>>,
  answers: Array<Answer>,
  writer: Writer,
  handling: Handling<Item, Prepared, Answer>,
): Promise<void> => {
  try {
    await writer.do((transaction) => {
      for (const { at, prepared } of portion) answers[at] = handling.run(transaction, prepared)
    })
  } catch (error) {
    const [first] = portion
    if (portion.length === 1 || first === undefined) {
      for (const { at } of portion) answers[at] = handling.failed(faultOf(error, handling.label))
      return
    }
    if (isForAll(error)) {
      for (const { at } of portion) answers[at] = handling.failed(faultOf(error, handling.label))
      return
    }
    // One of them cannot be stored: each for itself.
    await Promise.all(portion.map((each) => sendPortion([each], answers, writer, handling)))
  }
}

const isForAll = (error: unknown): boolean => faultOf(error, "").reason === "unavailable"
