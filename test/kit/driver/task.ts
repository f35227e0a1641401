/** Makes postings and records, and reads the content of deliveries. */

import { decodeEnvelope, encodeEnvelope } from "../../../runtime/protocol/envelope.ts"
import { isUndecodable, type Message, publishKey } from "../../../runtime/protocol/message.ts"
import type { State } from "../../../runtime/protocol/state.ts"
import type { CommitRecord, Delivery, Posting } from "../../../runtime/transport/driver.ts"
import { BrokenPromise } from "../check.ts"
import { type TaskFields, taskOf } from "../task.ts"

export type PostingFields = Omit<TaskFields, "key">

/** Bytes that stand for a record: a driver does not look into them. */
export const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
export const text = (content: Uint8Array | undefined): string | undefined =>
  content && new TextDecoder().decode(content)

export const frameOf = (message: Message): Uint8Array => {
  const frame = encodeEnvelope(message)
  if (frame._tag === "Failure") throw new Error(`the kit made a task without an envelope: ${frame.failure.message}`)
  return frame.success
}

export const driverPosting = (fields: PostingFields & { readonly id: string }): Posting => {
  const posting = taskOf(fields)
  const { id, queue, level, message, due, expires } = posting
  const { headers } = message
  const [task = "", method] = String(headers["task"]).split(".")
  const of = (name: string): string | undefined => (typeof headers[name] === "string" ? headers[name] : undefined)
  const [meth = method, root, parent, group] = [of("meth"), of("root_id"), of("parent_id"), of("group")]
  return {
    id,
    key: publishKey(posting),
    queue,
    level,
    ...(due === undefined ? {} : { due }),
    ...(expires === undefined ? {} : { expires }),
    index: {
      state: due === undefined ? "queued" : "scheduled",
      queue,
      task,
      at: Date.now(),
      ...(meth === undefined ? {} : { method: meth }),
      ...(root === undefined ? {} : { root }),
      ...(parent === undefined ? {} : { parent }),
      ...(group === undefined ? {} : { group }),
    },
    frame: frameOf(message),
    message,
  }
}

/** So many bytes of which no two long pieces are alike, so that pieces in the wrong order are noticed. */
export const varied = (size: number): Uint8Array => {
  const found = new Uint8Array(size)
  const words = new Uint32Array(found.buffer, 0, size >> 2)
  for (let at = 0; at < words.length; at += 64) words[at] = at
  return found
}

/** A posting whose frame has so many bytes. */
export const sized = (posting: Posting, size: number): Posting => {
  const empty = { ...posting.message, body: new Uint8Array(0) }
  const message = { ...empty, body: varied(size - frameOf(empty).length) }
  return { ...posting, message, frame: frameOf(message) }
}

/** A record of a job, whose content is a plain text. */
export const recordOf = (
  posting: Pick<Posting, "index">,
  state: State,
  fields: Partial<CommitRecord> & { readonly says?: string } = {},
): CommitRecord => {
  const { says = state, ...rest } = fields
  return { expect: "", bytes: bytes(says), index: { ...posting.index, state }, ...rest }
}

/** The message of a delivery. Fails if its content is none. */
export const messageOf = ({ content }: Pick<Delivery, "content">): Message => {
  const message = content instanceof Uint8Array ? decodeEnvelope(content) : content
  if (isUndecodable(message)) throw new BrokenPromise(`expected a message, found: ${message.undecodable}`)
  return message
}

/** Id of the task that came with a delivery. */
export const idOf = ({ content }: Pick<Delivery, "content">): string => {
  const message = content instanceof Uint8Array ? decodeEnvelope(content) : content
  return isUndecodable(message) ? `undecodable: ${message.undecodable}` : String(message.headers["id"])
}

export const idsOf = (deliveries: ReadonlyArray<Delivery>): ReadonlyArray<string> => deliveries.map(idOf)
