/**
 * Splits a long list of items into several transactions, so that none gets long, and an item that cannot be stored
 * fails alone.
 */
import type { TransportError } from "../../../runtime/transport/mod.ts"
import { faultOf } from "../database/fault.ts"
import type { Transaction } from "./transaction.ts"
import type { Writer } from "./writer.ts"

/** Most items in one transaction: one to two milliseconds. */
const MAX_ITEMS = 256

/** Most bytes in one transaction; the last item may exceed it. */
const MAX_BYTES = 2 * 1024 * 1024

export interface Failed {
  readonly status: "failed"
  readonly error: TransportError
}

export interface ItemHandler<Item, Prepared, Answer> {
  /** Checks an item before the write lock is taken. An error it throws becomes the item's answer. */
  prepare(item: Item): Prepared
  /** Bytes that are written for an item. */
  size(prepared: Prepared): number
  /** Does an item inside the transaction. It may run more than once; only the last run counts. */
  run(transaction: Transaction, prepared: Prepared): Answer
}

interface Ready<Prepared> {
  readonly at: number
  readonly prepared: Prepared
}

/**
 * One answer per item, in order. Never rejects: an error of the database is the answer of the items that it concerns.
 */
export const inChunks = async <Item, Prepared, Answer>(
  writer: Writer,
  items: ReadonlyArray<Item>,
  handling: ItemHandler<Item, Prepared, Answer>,
): Promise<ReadonlyArray<Answer | Failed>> => {
  const answers: Array<Answer | Failed> = new Array(items.length)
  const sends: Array<Promise<void>> = []
  let chunk: Array<Ready<Prepared>> = []
  let bytes = 0
  const send = (): void => {
    if (chunk.length > 0) sends.push(sendChunk(writer, chunk, handling, answers))
    chunk = []
    bytes = 0
  }
  items.forEach((item, at) => {
    try {
      const prepared = handling.prepare(item)
      chunk.push({ at, prepared })
      bytes += handling.size(prepared)
    } catch (error) {
      answers[at] = failed(writer, error)
    }
    if (chunk.length >= MAX_ITEMS || bytes >= MAX_BYTES) send()
  })
  send()
  await Promise.all(sends)
  return answers
}

const sendChunk = async <Item, Prepared, Answer>(
  writer: Writer,
  chunk: ReadonlyArray<Ready<Prepared>>,
  handling: ItemHandler<Item, Prepared, Answer>,
  answers: Array<Answer | Failed>,
): Promise<void> => {
  try {
    await writer.do((transaction) => {
      for (const { at, prepared } of chunk) answers[at] = handling.run(transaction, prepared)
    })
  } catch (error) {
    const answer = failed(writer, error)
    if (chunk.length === 1 || answer.error.reason === "unavailable") {
      for (const { at } of chunk) answers[at] = answer
      return
    }
    // One of the items cannot be stored: each is tried alone.
    await Promise.all(chunk.map((each) => sendChunk(writer, [each], handling, answers)))
  }
}

const failed = (writer: Writer, error: unknown): Failed => ({ status: "failed", error: faultOf(error, writer.label) })
