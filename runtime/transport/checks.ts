/** Checks that need no broker. Each fails with a {@link TransportError} that says what is wrong. */
import { FRONT_LEVEL, isLevel } from "../protocol/message.ts"
import { suggest } from "../protocol/suggest.ts"
import { byteLength } from "../protocol/text.ts"
import type { Capabilities, Commit, ConnectOptions, Posting } from "./driver.ts"
import { TransportError } from "./errors.ts"
import type { StoreOperation } from "./store.ts"

const NAMESPACE = /^[A-Za-z0-9_-]{1,64}$/
const TOPIC = /^[a-z0-9.-]{1,128}$/
/** Largest announcement, in bytes: an application event may have 64 KiB, and needs a few bytes around it. */
const MAX_PAYLOAD = 66 * 1024

const invalid = (message: string): TransportError => new TransportError("invalid", message)

const checkText = (what: string, text: string, max: number): void => {
  const bytes = byteLength(text)
  if (bytes < 1 || bytes > max) throw invalid(`${what} must have 1 to ${max} bytes, not ${bytes}`)
  if (text.isWellFormed() && !text.includes("\0")) return
  throw invalid(`${what} contains a zero byte or half of a surrogate pair: ${JSON.stringify(text.slice(0, 40))}`)
}

const checkSize = (what: string, bytes: Uint8Array, max: number): void => {
  if (bytes.length > max)
    throw new TransportError("too-large", `${what}: ${bytes.length} bytes; at most ${max} are allowed`)
}

export const checkConnectOptions = ({ namespace, lease }: Pick<ConnectOptions, "namespace" | "lease">): void => {
  if (!NAMESPACE.test(namespace)) throw invalid("a namespace must be 1 to 64 characters of A-Z a-z 0-9 _ -")
  if (!(lease >= 1_000)) throw invalid(`a lease must be at least 1,000 milliseconds, not ${lease}`)
}

/** Options of a URL that the runtime reads itself, for every transport. */
const SHARED = ["ns", "lease"]

/** The refusal of an option that a URL of this scheme (`nats:`) does not have. */
export const unknownUrlOption = (name: string, scheme: string, known: ReadonlyArray<string>): TransportError => {
  const meant = suggest(name, known)
  const instead =
    meant === undefined ? `; it has ${known.map((each) => `?${each}`).join(", ")}` : ` (did you mean ?${meant}?)`
  return invalid(`?${name} is not an option of ${scheme}${instead}`)
}

/** Refuses options of a URL that neither the transport, which knows `own`, nor the runtime has. */
export const checkUrlOptions = (url: URL, own: ReadonlyArray<string> = []): void => {
  const known = [...own, ...SHARED]
  for (const name of url.searchParams.keys()) {
    if (known.includes(name)) continue
    throw unknownUrlOption(name, url.protocol, known)
  }
}

const checkDelay = (id: string, delay: number, max: number): void => {
  if (delay <= max) return
  throw new TransportError(
    "unsupported",
    `${id}: due in ${delay} ms, but this transport keeps a task for at most ${max}`,
  )
}

/** Fails with `invalid`. */
export const checkLevel = (id: string, level: number): void => {
  if (!isLevel(level)) throw invalid(`${id}: level must be 0 to ${FRONT_LEVEL}, not ${level}`)
}

export const checkPosting = (posting: Posting, { maxTask, delay, front }: Capabilities): void => {
  const { id, queue, level, frame, due } = posting
  checkText("an id", id, 255)
  checkText("the name of a queue", queue, 255)
  checkLevel(id, level)
  if (level === FRONT_LEVEL && !front)
    throw new TransportError("unsupported", `${id}: this transport does not support front`)
  if (due !== undefined) checkDelay(id, due - Date.now(), delay)
  checkSize(id, frame, maxTask)
}

export const checkCommit = ({ id, record, post = [], task }: Commit, capabilities: Capabilities): void => {
  if (record !== undefined) {
    checkText("an id", id, 255)
    checkSize(`the record of ${id}`, record.bytes, capabilities.maxRecord)
  }
  for (const posting of post) checkPosting(posting, capabilities)
  if (task?.kind === "hand-back") checkDelay(id, task.delay, capabilities.delay)
}

export const checkOperation = ({ key, value, ttl }: StoreOperation, { maxRecord }: Capabilities): void => {
  checkText("a key", key, 512)
  if (ttl !== undefined && !(ttl >= 1_000)) throw invalid("a time to live must be at least 1,000 milliseconds")
  if (value) checkSize(key, value, maxRecord)
}

export const checkTopic = (topic: string, payload?: Uint8Array): void => {
  if (!TOPIC.test(topic)) throw invalid(`not a topic: ${JSON.stringify(topic.slice(0, 128))}`)
  if (payload !== undefined) checkSize("an announcement", payload, MAX_PAYLOAD)
}
