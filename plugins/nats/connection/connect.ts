/** Connects, and refuses servers that cannot keep the promises of this transport; the error says what to do. */
import {
  type ConnectionOptions,
  connect as connectClient,
  DebugEvents,
  ErrorCode,
  Events,
  type NatsConnection,
  NatsError,
} from "nats"
import { compact } from "../../../runtime/protocol/compact.ts"
import { type ConnectOptions, TransportError } from "../../../runtime/transport/mod.ts"
import { MAX_TIMER_MS } from "../../../runtime/transport/timers.ts"
import { errorText, fromClientError, JETSTREAM_ADVICE } from "./answers.ts"
import type { Config } from "./config.ts"
import { NatsLink } from "./link.ts"

/** Opens a connection, and checks the server. */
export const openLink = async (config: Config, options: ConnectOptions): Promise<NatsLink> => {
  const connection = await connectOnce(config, options)
  return checked(
    new NatsLink({ connection, owned: true, ...compact({ domain: config.domain }) }),
    config.allowOldServer,
  )
}

/** Uses a connection of the application, which is never closed here. */
export const adoptLink = async (connection: NatsConnection): Promise<NatsLink> => {
  if (connection.isClosed()) throw new TransportError("closed", "the given connection is closed")
  return checked(new NatsLink({ connection, owned: false }), false)
}

const checked = async (link: NatsLink, allowOldServer: boolean): Promise<NatsLink> => {
  try {
    await checkServer(link, allowOldServer)
    return link
  } catch (error) {
    await link.close()
    throw error
  }
}

const connectOnce = async (config: Config, options: ConnectOptions): Promise<NatsConnection> => {
  const what = `cannot connect to ${config.servers.join(", ")}`
  try {
    const delay = new ReconnectDelay(options.reconnectDelay)
    const connection = await connectClient(connectionOptions(config, options, delay))
    void delay.follow(connection)
    return connection
  } catch (error) {
    if (isCertificateError(error))
      throw new TransportError(
        "unauthorized",
        `${what}: the certificate of the server is not accepted (${errorText(error)}): set the authority that signed it with ?tlsCa=FILE, and use the host name of the certificate`,
      )
    const classified = fromClientError(error, what)
    if (config.tls !== undefined && error instanceof NatsError && error.code === ErrorCode.Timeout)
      throw new TransportError("unavailable", `${classified.message}${TLS_ADVICE}`)
    // Every other reason why a first connection fails (names, routes, protocols) may pass.
    if (classified.reason !== "internal") throw classified
    throw new TransportError("unavailable", `${what}: ${errorText(error)}`)
  }
}

/** Options of the client. It reconnects for ever, because the runtime decides when to give up. */
const connectionOptions = (config: Config, options: ConnectOptions, delay: ReconnectDelay): ConnectionOptions => ({
  servers: [...config.servers],
  name: options.name,
  timeout: options.timeout,
  authenticator: [...config.authenticators],
  ...compact({ tls: config.tls }),
  maxReconnectAttempts: -1,
  reconnectDelayHandler: () => delay.wait,
  // By default the client gives up after two authorization errors in a row, which a server that restarts can cause.
  ignoreAuthErrorAbort: true,
  ...pings(options.heartbeat ?? HEARTBEAT_MS),
  noAsyncTraces: true,
})

/** With pings at this rate a dead server is noticed after 20 to 30 seconds, instead of the client's 4 to 6 minutes. */
const HEARTBEAT_MS = 20_000

/**
 * Sends pings at twice the rate of the heartbeat; two without an answer mean that the connection is lost. Without a heartbeat
 * pings are as rare as a timer can make them: the client takes 0 as its own default.
 */
const pings = (heartbeat: number): Pick<ConnectionOptions, "pingInterval" | "maxPingOut"> => ({
  pingInterval: heartbeat > 0 ? heartbeat / 2 : MAX_TIMER_MS,
  maxPingOut: 2,
})

/** Whether one side does not accept the other's certificate. The client passes on errors of TLS as they are. */
const isCertificateError = (error: unknown): boolean =>
  error instanceof Error && "code" in error && /CERT|VERIFY|_TLS_|_SSL_/.test(String(error.code))

/** What to look at when a server does not answer over TLS: one that refuses a certificate says so in its log alone. */
export const TLS_ADVICE =
  ". A server that asks for a certificate may not accept this one: see its log, tlsCert and tlsKey"

/**
 * The result of `opening`, or `unavailable` after `ms` milliseconds, with `advice`; a connection that opens too late is
 * closed.
 */
export const withTimeout = async <T extends { close(): Promise<void> }>(
  opening: Promise<T>,
  ms: number,
  advice = "",
): Promise<T> => {
  let timer: ReturnType<typeof setTimeout> | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new TransportError("unavailable", `not connected within ${ms} ms${advice}`))
      opening.then((late) => late.close()).catch(() => undefined)
    }, ms)
  })
  try {
    return await Promise.race([opening, timeout])
  } finally {
    clearTimeout(timer)
  }
}

const checkServer = async (link: NatsLink, allowOldServer: boolean): Promise<void> => {
  checkVersion(link.serverVersion, allowOldServer)
  try {
    await link.api("INFO", {})
  } catch (error) {
    // The JetStream API has no subscriber: the server runs without JetStream. A cluster without a leader does answer.
    if (error instanceof TransportError && error.reason === "unavailable" && error.outcome === "none") {
      // One that is cut off from its cluster has no subscriber either, until it is back.
      if (link.isClustered)
        throw new TransportError(
          "unavailable",
          `this nats-server has no JetStream now: it may be starting, or cut off from its cluster. If this lasts: ${JETSTREAM_ADVICE}`,
        )
      throw new TransportError("unsupported", `this nats-server has no JetStream. ${JETSTREAM_ADVICE}`)
    }
    throw error
  }
}

// ── delay between attempts to reconnect ──────────────────────────────────────────────────────────────────────────────

/** The delay when the runtime passes no `reconnectDelay`. */
const DEFAULT_DELAY_MS = 250

/**
 * The delay between the client's attempts to reconnect. The client calls its delay handler several times per attempt,
 * so that attempts are counted by the client's status events.
 */
export class ReconnectDelay {
  readonly #delay: (tries: number) => number
  #tries = 0
  #wait = 0

  constructor(delay: (tries: number) => number = () => DEFAULT_DELAY_MS) {
    this.#delay = delay
    this.#begin()
  }

  /** Milliseconds between the last attempt and the next. */
  get wait(): number {
    return this.#wait
  }

  /** Counts the attempts of this connection for as long as it exists. */
  async follow(connection: NatsConnection): Promise<void> {
    for await (const { type } of connection.status()) {
      if (type === DebugEvents.Reconnecting) this.#wait = this.#delay(++this.#tries)
      else if (type === Events.Reconnect) this.#begin()
    }
  }

  #begin(): void {
    this.#tries = 0
    this.#wait = this.#delay(1)
  }
}

// ── server versions ──────────────────────────────────────────────────────────────────────────────────────────────────

type Version = readonly [major: number, minor: number, patch: number]

const parse = (text: string): Version | undefined => {
  const [, major, minor, patch] = /^v?(\d+)\.(\d+)\.(\d+)/.exec(text) ?? []
  return major === undefined ? undefined : [Number(major), Number(minor), Number(patch)]
}

/**
 * Whether this version has no known fault that loses acknowledged messages. 2.12.15, 2.14.5 and 2.15.0 are the first
 * such releases of their lines; 2.13 never had fixes of its own.
 */
const isSafe = ([major, minor, patch]: Version): boolean => {
  if (major !== 2) return major > 2
  if (minor === 12) return patch >= 15
  if (minor === 14) return patch >= 5
  return minor >= 15
}

/** Whether the server can keep delayed tasks: schedules exist from 2.12 on. */
const canSchedule = ([major, minor]: Version): boolean => major > 2 || (major === 2 && minor >= 12)

/** Fails with `unsupported` when the server is too old, saying what to do. */
export const checkVersion = (text: string, allowOld: boolean): void => {
  const version = parse(text)
  if (version === undefined)
    throw new TransportError("unsupported", `the server does not report its version ("${text}")`)
  if (isSafe(version) || (allowOld && canSchedule(version))) return
  const wanted = "nats-server 2.15 or later, 2.14.5 or later, or 2.12.15 or later"
  const way = canSchedule(version)
    ? `Upgrade it, or connect with ?allowOldServer to accept bugs that can lose tasks.`
    : `Upgrade it: versions before 2.12 cannot store due times.`
  throw new TransportError("unsupported", `this nats-server is ${text}; Callboard requires ${wanted}. ${way}`)
}
