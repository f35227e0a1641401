/** Translates the arguments of scripts, and their replies. */
import type * as contract from "../../runtime/transport/mod.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import { envelopeOf, readEnvelope, SEPARATOR } from "./envelope.ts"
import type { Argument, Reply } from "./link.ts"

/** Names of the keys of kombu, of Celery's results and of Callboard. A queue with such a name would overwrite them. */
const RESERVED = /^(unacked|unacked_index|unacked_mutex|_kombu\.|callboard:|celery-task(set)?-meta-)/

/** Arguments of a script: items as JSON, then bytes, to which items refer by their position. */
export class Arguments {
  readonly #bytes: Array<Argument> = []

  put(bytes: Argument): number {
    // Two prefixes and the items come first, and Lua counts from one.
    return this.#bytes.push(bytes) + 3
  }

  posting(posting: contract.Posting): object {
    const { id, key, queue, level, due, expires, index } = posting
    if (RESERVED.test(queue) || queue.includes(SEPARATOR))
      throw new TransportError("invalid", `${id}: ${queue} is reserved by kombu or Callboard`)
    const { tag, text } = envelopeOf(posting.message, "", queue, level)
    const times = { ...(due === undefined ? {} : { due }), ...(expires === undefined ? {} : { expires }) }
    return { id, key, queue, level, tag, env: this.put(text), index: indexText(index), ...times }
  }

  after(items: object): ReadonlyArray<Argument> {
    return [JSON.stringify(items), ...this.#bytes]
  }
}

export const replyText = (reply: Reply | undefined): string =>
  // The client library gives bytes as buffers, whose text needs no other view.
  reply instanceof Uint8Array && !Buffer.isBuffer(reply) ? Buffer.from(reply).toString() : String(reply ?? "")

export const listOf = (reply: Reply): ReadonlyArray<Reply> => (Array.isArray(reply) ? reply : [])

const contentOf = (value: Reply | undefined) => readEnvelope(value instanceof Uint8Array ? value : new Uint8Array(0))

const bytesOf = (reply: Reply | undefined): Uint8Array =>
  reply instanceof Uint8Array ? new Uint8Array(reply) : new Uint8Array(0)

/** An unpaired surrogate as `JSON.stringify` writes it. The server's JSON parser refuses it. */
const UNPAIRED = /\\ud[89a-f]/

/** The same index with U+FFFD in place of unpaired surrogates. */
export const plainIndex = <T extends object>(index: T): T =>
  JSON.parse(JSON.stringify(index), (_, value: unknown) => (typeof value === "string" ? value.toWellFormed() : value))

export const indexText = (index: contract.Index): string => {
  const text = JSON.stringify(index)
  return UNPAIRED.test(text) ? JSON.stringify(plainIndex(index)) : text
}

/** The member of a job in the lists of jobs: 16 digits of its submission time, and its id. */
export const memberOf = (at: number, id: string): string =>
  `${String(Math.max(0, Math.min(at, 9e15))).padStart(16, "0")}:${id}`

/** Whether a member comes before another one, in the order of bytes that the server uses. */
export const isBefore = (one: string, other: string): boolean =>
  Buffer.compare(Buffer.from(one), Buffer.from(other)) < 0

export const deliveryOf = (
  known: Reply | undefined,
  value: Reply | undefined,
  queues: ReadonlyArray<string>,
): contract.Delivery => {
  const [level, sequence, first, external, fence = "", deliveries, position, ...tag] = replyText(known).split(" ")
  return {
    token: `${fence}.${tag.join(" ")}`,
    queue: queues[Number(position) - 1] ?? "",
    level: Number(level),
    sequence: Number(sequence),
    first: first === "1",
    external: external === "1",
    fence,
    deliveries: Number(deliveries),
    content: contentOf(value),
  }
}

export const committedOf = (answer: Reply): contract.Committed => {
  const text = replyText(answer)
  const [status = "", revision = ""] = text.split(" ")
  if (status === "conflict") return { status }
  if (status === "known") return { status: "conflict", known: JSON.parse(text.slice(status.length)) }
  return status === "gone" ? { status: "committed", revision, gone: true } : { status: "committed", revision }
}

export const knownOf = (row: Reply): contract.Known | undefined => {
  const [revision, record, queue, due, expires, at, held, value, sequence, deliveries] = listOf(row)
  const known = { revision: replyText(revision), ...(record instanceof Uint8Array ? { record: bytesOf(record) } : {}) }
  if (!(queue instanceof Uint8Array)) return known.revision === "" ? undefined : known
  return {
    ...known,
    task: {
      queue: replyText(queue),
      at: Number(replyText(at)),
      sequence: Number(replyText(sequence)),
      held: held === 1,
      deliveries: Number(replyText(deliveries)),
      ...(due instanceof Uint8Array ? { due: Number(replyText(due)) } : {}),
      ...(expires instanceof Uint8Array ? { expires: Number(replyText(expires)) } : {}),
      content: contentOf(value),
    },
  }
}

export const rowOf = (row: Reply): [string, contract.Index | undefined] => {
  const [member, index] = listOf(row)
  return [replyText(member), index instanceof Uint8Array ? JSON.parse(replyText(index)) : undefined]
}

export const entryOf = (row: Reply): contract.Entry | undefined => {
  const [key, value, revision] = listOf(row)
  return row === null ? undefined : { key: replyText(key), value: bytesOf(value), revision: replyText(revision) }
}

/** The lists in which the jobs of a query are found. The driver merges several. */
export const keysOf = ({
  states,
  dead,
  error,
  task,
  queue,
  root,
  parent,
  group,
}: Omit<contract.Query, "limit">): ReadonlyArray<string> => {
  if (root !== undefined) return [`r:${root}`]
  if (parent !== undefined) return [`p:${parent}`]
  if (group !== undefined) return [`g:${group}`]
  if (error !== undefined) return [`e:${error}`]
  const ended = dead ? (["failed", "cancelled", "expired"] as const) : undefined
  const wanted = states ?? ended
  if (wanted !== undefined && !wanted.includes("succeeded")) {
    // A task that was posted as scheduled may be due by now.
    const waits = wanted.some((state) => state === "queued" || state === "scheduled")
    return [...new Set([...wanted, ...(waits ? ["queued", "scheduled"] : [])])].map((state) => `s:${state}`)
  }
  if (task !== undefined) {
    const actor = task.slice(0, task.includes(".") ? task.lastIndexOf(".") : undefined)
    return [...new Set([task, actor])].map((name) => `t:${name}`)
  }
  return queue === undefined ? ["all"] : [`q:${queue}`]
}
