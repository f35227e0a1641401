/**
 * Names of attempts. One text says which posting an attempt is of, which delivery of its task, and which task, as a posting
 * may have been stored twice: `<posting>.<fence of the driver>.<sequence of the task>`. It is the `fence` of deliveries and
 * records, rises over all deliveries of a job when compared as text, and no two of them share it. A record names by it the
 * attempt that last claimed or decided the job; a decision from outside of any delivery names none.
 */
import { type AddressedTask, isUndecodable, type Message, type Undecodable } from "../../protocol/message.ts"
import type { Delivery } from "../driver.ts"
import { TransportError } from "../mod.ts"
import { ownHeader } from "./codec.ts"

/** Position of a posting among those of its job, as text: run, then retries, then hops. */
export type Order = string

/** The order of what cannot be read: it is posting of no job. */
export const NO_ORDER: Order = "u"

/** Numbers that compare as text: the length of the digits before them. */
const sortable = (value: number): string => {
  const digits = value.toString(36)
  return String.fromCharCode(96 + digits.length) + digits
}

const FIRST = sortable(1) + sortable(0) + sortable(0)

export const orderOf = ({ run, retries, hops = 0 }: Pick<AddressedTask, "run" | "retries" | "hops">): Order =>
  run === 1 && retries === 0 && hops === 0 ? FIRST : sortable(run) + sortable(retries) + sortable(hops)

/** The order in a publish key of a job (`<id>/<run>/<retries>`, perhaps `/<hops>`). */
export const orderOfKey = (id: string, key: string): Order => {
  const [run = 0, retries = 0, hops = 0] = key
    .slice(id.length + 1)
    .split("/")
    .map(Number)
  return orderOf({ run, retries, hops })
}

/** Run and retries of an order that is one of a job. */
export const inOrder = (order: Order): Pick<AddressedTask, "run" | "retries"> => {
  const after = order.charCodeAt(0) - 95
  return {
    run: Number.parseInt(order.slice(1, after), 36),
    retries: Number.parseInt(order.slice(after + 1, after + order.charCodeAt(after) - 95), 36),
  }
}

const count = (value: unknown, otherwise: number): number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : otherwise

/** The order of a message's posting, out of the headers that say it. */
export const orderOfMessage = (message: Message | Undecodable): Order => {
  if (isUndecodable(message)) return NO_ORDER
  const own = ownHeader(message)
  const retries = count(message.headers["retries"], 0)
  return orderOf({ run: count(own["run"], 1), retries, hops: count(own["hops"], 0) })
}

/** Whether a delivery is of a job's first posting and the job waited for nothing: then nothing can be stored about it. */
const isUntouched = (order: Order, message: Message | Undecodable): boolean =>
  isUndecodable(message) || (order === FIRST && hasHeaders(message) && !isDeferred(message))

/** Those of protocol 1 lie in the body. */
const hasHeaders = ({ headers }: Message): boolean =>
  typeof headers["task"] === "string" || typeof headers["id"] === "string"

const isDeferred = (message: Message): boolean => {
  const { after } = ownHeader(message)
  return after !== undefined && after !== null
}

/** What a token of the runtime says. */
export interface Attempt {
  /** Of the job; empty where that cannot be read. */
  readonly id: string
  /** Names the attempt: what the record says. */
  readonly fence: string
  readonly order: Order
  /** Nothing can be stored about its job but by this delivery. */
  readonly fresh: boolean
  /** Its task was never handed over before. */
  readonly first: boolean
  /** The driver's own token. */
  readonly token: string
}

/** The attempt that a delivery is. */
export const attemptOf = (delivery: Delivery, message: Message | Undecodable): Attempt => {
  const order = orderOfMessage(message)
  return {
    id: idIn(message),
    fence: `${order}.${delivery.fence}.${delivery.sequence}`,
    order,
    fresh: delivery.first && isUntouched(order, message),
    first: delivery.first,
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

/** How a token begins. */
const FRESH = "f"
const FIRST_OF_TASK = "c"
const AGAIN = "r"

/** Any thread or process can act for an attempt whose token it knows. */
export const tokenOf = ({ id, fresh, first, fence, token }: Attempt): string =>
  `${fresh ? FRESH : first ? FIRST_OF_TASK : AGAIN}${fence} ${PLAIN.test(id) ? id : encodeURIComponent(id)} ${token}`

const notOurs = (text: string): TransportError =>
  new TransportError("invalid", `not a token of this transport: ${JSON.stringify(text.slice(0, 60))}`)

/** Fails with `invalid`. */
export const readToken = (text: string): Attempt => {
  const flag = text[0]
  const dot = text.indexOf(".")
  const idAt = text.indexOf(" ") + 1
  const tokenAt = text.indexOf(" ", idAt) + 1
  const isOurs =
    (flag === FRESH || flag === FIRST_OF_TASK || flag === AGAIN) &&
    dot > 0 &&
    dot < idAt &&
    tokenAt > idAt &&
    tokenAt < text.length
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
    first: flag !== AGAIN,
    token: text.slice(tokenAt),
  }
}

/** The attempt that a record's fence names. */
export interface FenceParts {
  readonly order: Order
  /** Rises over the deliveries of one task. */
  readonly fence: string
}

/** `undefined`: no delivery wrote the record. */
export const parseFence = (fence: string): FenceParts | undefined => {
  const dot = fence.indexOf(".")
  if (dot < 0) return undefined
  return { order: fence.slice(0, dot), fence: fence.slice(dot + 1, fence.lastIndexOf(".")) }
}
