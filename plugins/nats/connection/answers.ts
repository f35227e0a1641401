/**
 * Answers of the server and errors of its client: values out of the JSON of the JetStream API, and errors as the
 * reasons of the contract. The only file that knows the server's error codes. Messages name streams and subjects, never
 * credentials.
 */
import { ErrorCode, NatsError } from "nats"
import { isMap, isObject } from "../../../runtime/protocol/guards.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"

/** The error in an answer of the JetStream API. */
export interface ApiError {
  /** A status as in HTTP. */
  readonly code: number
  readonly err_code: number
  readonly description: string
}

/** Error codes of the JetStream API that this transport expects, and handles as answers. */
export const CODE = {
  consumerNotFound: 10014,
  messageNotFound: 10037,
  streamNameInUse: 10058,
  streamNotFound: 10059,
  wrongLastSequence: 10071,
  consumerNotUnique: 10100,
  consumerExists: 10148,
} as const

/**
 * In a cluster, while another client writes the same subject or publish key: nothing was stored, and the message is
 * sent again once that write is decided.
 */
export const BUSY: ReadonlySet<number> = new Set([
  10158, // a message with the same id is in process
  10164, // a write that expects a sequence of the same subject is in process
])

/**
 * The server or the account has no room: nothing was stored. A stream that reached a limit of its own answers with
 * another code.
 */
const NO_ROOM: ReadonlySet<number> = new Set([
  10002, // resource limits exceeded for the account
  10023, // insufficient resources: the server's limits
  10028, // memory resources exceeded
  10047, // storage resources exceeded
])

/** Refused for now: nothing was stored, and the same request may succeed later. */
const LATER: ReadonlySet<number> = new Set([
  ...BUSY,
  ...NO_ROOM,
  10005, // no suitable peers for placement: a cluster whose servers have not found each other yet
  10008, // JetStream temporarily unavailable
  10009, // no leader
  10167, // too many requests
])

/** Codes for a message that does not exist (nats-server 2.15.1; which one depends on where the sequence lies). */
export const NO_MESSAGE: ReadonlySet<number> = new Set([CODE.messageNotFound, 10043, 10057])

const NOT_ENABLED: ReadonlySet<number> = new Set([10039, 10076])

/** Reads an error of the API; fields that are missing get a default. */
export const apiError = (value: unknown): ApiError | undefined => {
  if (!isMap(value)) return undefined
  const { code, err_code, description } = value
  return {
    code: typeof code === "number" ? code : 500,
    err_code: typeof err_code === "number" ? err_code : 0,
    description: typeof description === "string" ? description : "no description",
  }
}

/** Whether the server refused a message for lack of room. */
export const hasNoRoom = ({ err_code }: ApiError): boolean => NO_ROOM.has(err_code)

/** An error of the API as one of the contract; `what` names the request. */
export const fromApiError = ({ code, err_code, description }: ApiError, what: string): TransportError => {
  const message = `${what}: ${description} (${err_code})`
  if (NO_ROOM.has(err_code)) return new TransportError("unavailable", `${message}. ${ROOM_ADVICE}`)
  if (NOT_ENABLED.has(err_code)) return new TransportError("unsupported", `${message}. ${JETSTREAM_ADVICE}`)
  if (LATER.has(err_code) || code === 503 || code === 429) return new TransportError("unavailable", message)
  if (err_code === 10054) return new TransportError("too-large", message)
  return new TransportError(code === 400 ? "invalid" : "internal", message)
}

const ROOM_ADVICE =
  "The nats-server has no space left: free space on its disk, delete data, or raise its limits; no accepted task is lost"

export const JETSTREAM_ADVICE =
  "Start nats-server with JetStream: `nats-server -js`, or a `jetstream {}` block in its configuration; with accounts, JetStream must be enabled for the account as well."

/** The subject has no subscriber: nothing was stored. */
export const noResponders = (what: string): TransportError =>
  new TransportError("unavailable", `${what}: there is no subscriber now`)

export const timedOut = (what: string, ms: number): TransportError =>
  new TransportError("unavailable", `${what}: no answer within ${ms} ms`, { outcome: "unknown" })

/** The server does not allow this user to publish or to subscribe to the subject: nothing was stored. */
export const notAllowed = (operation: "publish" | "subscribe", subject: string): TransportError =>
  new TransportError(
    "unauthorized",
    `the nats-server does not allow this user to ${operation} to ${subject}: add that permission to the user, or connect as a user that has it`,
  )

export const closed = (): TransportError => new TransportError("closed", "this transport was closed")

/** An error that the client threw as one of the contract; `what` names the request. */
export const fromClientError = (error: unknown, what: string): TransportError => {
  if (error instanceof TransportError) return error
  if (!(error instanceof NatsError))
    return new TransportError("internal", `${what}: ${errorText(error)}`, { cause: error })
  switch (error.code) {
    case ErrorCode.AuthorizationViolation:
    case ErrorCode.AuthenticationExpired:
    case ErrorCode.AuthenticationTimeout:
    case ErrorCode.AccountExpired:
    case ErrorCode.PermissionsViolation:
    case ErrorCode.BadAuthentication:
    case ErrorCode.BadCreds:
      return new TransportError(
        "unauthorized",
        `${what}: the server refuses the credentials (${error.message.replaceAll("'", "")}); check user and password, token or key`,
      )
    case ErrorCode.MaxPayloadExceeded:
      return new TransportError("too-large", `${what}: larger than the server's max_payload`)
    case ErrorCode.ConnectionClosed:
    case ErrorCode.ConnectionDraining:
      return new TransportError("closed", `${what}: the connection was closed`)
    case ErrorCode.NoResponders:
      return noResponders(what)
    case ErrorCode.ServerOptionNotAvailable:
      return new TransportError("unsupported", `${what}: the server does not offer ${error.message}`)
    case ErrorCode.Tls:
      return new TransportError("unauthorized", `${what}: ${error.message}`)
    default:
      return new TransportError("unavailable", `${what}: ${error.message}`)
  }
}

export const errorText = (error: unknown): string => (error instanceof Error ? error.message : String(error))

export const asTransportError = (error: unknown): TransportError => fromClientError(error, "the nats transport failed")

/**
 * A copy of a message's content. The content is a view of the client's buffer, which holds many messages and would stay in
 * memory as long as one of them is in use; and it is a Buffer, of which `slice` is another view.
 */
export const copyOf = (data: Uint8Array): Uint8Array => new Uint8Array(data)

// ── reading JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** The value at a path of keys, or `undefined`. An answer of the server may lack any field. */
export const at = (value: unknown, ...path: ReadonlyArray<string>): unknown => {
  let here = value
  for (const key of path) {
    if (!isObject(here)) return undefined
    here = Object.hasOwn(here, key) ? Reflect.get(here, key) : undefined
  }
  return here
}

export const numberAt = (value: unknown, ...path: ReadonlyArray<string>): number => {
  const found = at(value, ...path)
  return typeof found === "number" ? found : 0
}

export const textAt = (value: unknown, ...path: ReadonlyArray<string>): string => {
  const found = at(value, ...path)
  return typeof found === "string" ? found : ""
}

export const listAt = (value: unknown, ...path: ReadonlyArray<string>): ReadonlyArray<unknown> => {
  const found = at(value, ...path)
  return Array.isArray(found) ? found : []
}

export const objectAt = (value: unknown, ...path: ReadonlyArray<string>): Readonly<Record<string, unknown>> => {
  const found = at(value, ...path)
  return isMap(found) ? found : {}
}

/** The error in an answer of the API, if there is one. */
export const errorIn = (answer: unknown): ApiError | undefined => {
  const error = at(answer, "error")
  return error === undefined
    ? undefined
    : (apiError(error) ?? { code: 500, err_code: 0, description: "no description" })
}
