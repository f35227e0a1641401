/**
 * Names of attempts, which are the `fence` of deliveries and records: `<order>.<fence of the driver>.<sequence>`. The order
 * says which task of the job it is (run, retries, hops), the driver's fence which delivery of it, and the sequence which
 * copy, as a task may have been stored twice. Compared as text, fences rise over all deliveries of a job, and each
 * is unique. The fence of a record names the attempt that last claimed the job or ended it; it is empty after a decision
 * that no delivery made.
 */
import { isUndecodable, type JobPosting, type Message, type Undecodable } from "../../protocol/message.ts"
import type { Delivery } from "../driver.ts"
import { TransportError } from "../mod.ts"
import { ownHeader } from "./codec.ts"

/** Rank of a task among those of its job, as text: run, then retries, then hops (moves to another queue). */
export type Order = string

/** The order of a message that cannot be read, which belongs to no job. */
export const NO_ORDER: Order = "u"

/** A number whose text sorts like the number: the count of its digits, as a letter, stands before them. */
const sortable = (value: number): string => {
  const digits = value.toString(36)
  return String.fromCharCode(96 + digits.length) + digits
}

const FIRST = sortable(1) + sortable(0) + sortable(0)

export const orderOf = ({ run, retries, hops = 0 }: Pick<JobPosting, "run" | "retries" | "hops">): Order =>
  run === 1 && retries === 0 && hops === 0 ? FIRST : sortable(run) + sortable(retries) + sortable(hops)

/** The order in a publish key of a job (`<id>/<run>/<retries>`, perhaps `/<hops>`). */
export const orderOfKey = (id: string, key: string): Order => {
  const [run = 0, retries = 0, hops = 0] = key
    .slice(id.length + 1)
    .split("/")
    .map(Number)
  return orderOf({ run, retries, hops })
}

/** Run and retries out of an order other than {@link NO_ORDER}. */
export const inOrder = (order: Order): Pick<JobPosting, "run" | "retries"> => {
  const after = order.charCodeAt(0) - 95
  return {
    run: Number.parseInt(order.slice(1, after), 36),
    retries: Number.parseInt(order.slice(after + 1, after + order.charCodeAt(after) - 95), 36),
  }
}

const count = (value: unknown, otherwise: number): number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : otherwise

/** The order of a task, read from its headers. */
export const orderOfMessage = (message: Message | Undecodable): Order => {
  if (isUndecodable(message)) return NO_ORDER
  const own = ownHeader(message)
  const retries = count(message.headers["retries"], 0)
  return orderOf({ run: count(own["run"], 1), retries, hops: count(own["hops"], 0) })
}

/** Whether it is the first task of a job that waited for no other jobs: then no record of the job can be stored. */
const isUntouched = (order: Order, message: Message | Undecodable): boolean =>
  isUndecodable(message) || (order === FIRST && hasHeaders(message) && !isDeferred(message))

/** Tasks of Celery's protocol 1 have these fields in the body instead. */
const hasHeaders = ({ headers }: Message): boolean =>
  typeof headers["task"] === "string" || typeof headers["id"] === "string"

const isDeferred = (message: Message): boolean => {
  const { after, chord } = ownHeader(message)
  return (after ?? chord ?? undefined) !== undefined
}

/** The content of a token. */
export interface DeliveryToken {
  /** Id of the job; empty where it cannot be read. */
  readonly id: string
  /** Name of the attempt, which its records carry. */
  readonly fence: string
  readonly order: Order
  /** Only this delivery can have stored anything about the job. */
  readonly fresh: boolean
  /** The task was never delivered before. */
  readonly first: boolean
  /** Another program has published the task, perhaps under the id of a job that is there. */
  readonly external: boolean
  /** The driver's own token. */
  readonly token: string
}

/** The attempt that a delivery begins. */
export const attemptOf = (delivery: Delivery, message: Message | Undecodable): DeliveryToken => {
  const order = orderOfMessage(message)
  return {
    id: idIn(message),
    fence: `${order}.${delivery.fence}.${delivery.sequence}`,
    order,
    fresh: delivery.first && !delivery.external && isUntouched(order, message),
    first: delivery.first,
    external: delivery.external === true,
    token: delivery.token,
  }
}

const idIn = (message: Message | Undecodable): string => {
  if (isUndecodable(message)) return ""
  const id = message.headers["id"]
  return typeof id === "string" ? id.toWellFormed() : ""
}

/** Ids that stand in a token as they are. */
const PLAIN = /^[\w-]*$/

/**
 * First letter of a token: a fresh delivery, the first delivery of a task whose job may have a record, or a later one; the
 * last two in capitals where another program has published the task.
 */
const FRESH = "f"
const FIRST_OF_TASK = "c"
const AGAIN = "r"
const FLAGS = /^[fcrCR]$/

/** Encodes an attempt as a token, so that any thread or process that has the token can act for it. */
export const tokenOf = ({ id, fresh, first, external, fence, token }: DeliveryToken): string => {
  const flag = fresh ? FRESH : first ? FIRST_OF_TASK : AGAIN
  return `${external ? flag.toUpperCase() : flag}${fence} ${PLAIN.test(id) ? id : encodeURIComponent(id)} ${token}`
}

const notOurs = (text: string): TransportError =>
  new TransportError("invalid", `not a token of this transport: ${JSON.stringify(text.slice(0, 60))}`)

/** Fails with `invalid` for a text that is not a token. */
export const readToken = (text: string): DeliveryToken => {
  const flag = text.slice(0, 1)
  const dot = text.indexOf(".")
  const idAt = text.indexOf(" ") + 1
  const tokenAt = text.indexOf(" ", idAt) + 1
  const isOurs = FLAGS.test(flag) && dot > 0 && dot < idAt && tokenAt > idAt && tokenAt < text.length
  if (!isOurs) throw notOurs(text)
  let id = text.slice(idAt, tokenAt - 1)
  try {
    if (id.includes("%")) id = decodeURIComponent(id)
  } catch {
    throw notOurs(text)
  }
  return {
    id,
    fence: text.slice(1, idAt - 1),
    order: text.slice(1, dot),
    fresh: flag === FRESH,
    first: flag.toLowerCase() !== AGAIN,
    external: flag !== flag.toLowerCase(),
    token: text.slice(tokenAt),
  }
}

/** The parts of a fence that are compared. */
export interface FenceParts {
  readonly order: Order
  /** The driver's fence, which rises over the deliveries of one task. */
  readonly fence: string
}

/** `undefined` for an empty fence: no delivery wrote the record. */
export const parseFence = (fence: string): FenceParts | undefined => {
  const dot = fence.indexOf(".")
  if (dot < 0) return undefined
  return { order: fence.slice(0, dot), fence: fence.slice(dot + 1, fence.lastIndexOf(".")) }
}

/** The sequence of the attempt's task in its queue. */
export const sequenceOf = ({ fence }: Pick<DeliveryToken, "fence">): number =>
  Number(fence.slice(fence.lastIndexOf(".") + 1))
