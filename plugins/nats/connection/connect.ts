/** Connects, and refuses servers that cannot keep what this transport promises, saying what to do about it. */
import { type ConnectionOptions, connect as connectClient, DebugEvents, Events, type NatsConnection } from "nats"
import { type ConnectOptions, TransportError } from "../../../runtime/transport/mod.ts"
import { fromClientError, JETSTREAM_ADVICE, textOf } from "./answers.ts"
import type { Config } from "./config.ts"
import { Link } from "./link.ts"

/** Opens a connection of our own, to a server that will do. */
export const openLink = async (config: Config, options: ConnectOptions): Promise<Link> => {
  const connection = await connectOnce(config, options)
  return checked(
    new Link({ connection, owned: true, ...(config.domain === undefined ? {} : { domain: config.domain }) }),
    config.allowOldServer,
  )
}

/** Uses a connection that the application holds, and never closes it. */
export const adoptLink = async (connection: NatsConnection): Promise<Link> => {
  if (connection.isClosed()) throw new TransportError("closed", "the connection that was given is closed")
  return checked(new Link({ connection, owned: false }), false)
}

const checked = async (link: Link, allowOldServer: boolean): Promise<Link> => {
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
    if (isCertificateError(error)) throw new TransportError("unauthorized", `${what}: ${textOf(error)}`)
    const classified = fromClientError(error, what)
    // Whatever else keeps a first connection from being made (names, routes, protocols) may pass.
    if (classified.reason !== "internal") throw classified
    throw new TransportError("unavailable", `${what}: ${textOf(error)}`)
  }
}

/** What the client is told. It reconnects for ever; the runtime decides when to give up. */
export const connectionOptions = (
  config: Config,
  options: ConnectOptions,
  delay: ReconnectDelay,
): ConnectionOptions => ({
  servers: [...config.servers],
  name: options.name,
  timeout: options.timeout,
  authenticator: [...config.authenticators],
  ...(config.tls === undefined ? {} : { tls: config.tls }),
  maxReconnectAttempts: -1,
  reconnectDelayHandler: () => delay.wait,
  // The client's default gives up after two refusals in a row, which a server that restarts can cause.
  ignoreAuthErrorAbort: true,
  ...pings(options.heartbeat ?? HEARTBEAT_MS),
  noAsyncTraces: true,
})

/** A dead server is noticed after 20 to 30 seconds, instead of 4 to 6 minutes. */
const HEARTBEAT_MS = 20_000

/** Timers cannot wait for longer; to the client, 0 means its own default. */
const NEVER_MS = 2 ** 31 - 1

/** Asks at twice the rate, and takes two questions without an answer for a loss. */
const pings = (heartbeat: number): Pick<ConnectionOptions, "pingInterval" | "maxPingOut"> => ({
  pingInterval: heartbeat > 0 ? heartbeat / 2 : NEVER_MS,
  maxPingOut: 2,
})

/** One side does not accept the other's certificate: the errors of TLS come through the client as they are. */
const isCertificateError = (error: unknown): boolean =>
  error instanceof Error && "code" in error && /CERT|VERIFY|_TLS_|_SSL_/.test(String(error.code))

/** The outcome of opening something, or `unavailable` when that takes longer; what comes too late is closed. */
export const withTimeout = async <T extends { close(): Promise<void> }>(
  opening: Promise<T>,
  ms: number,
): Promise<T> => {
  let timer: ReturnType<typeof setTimeout> | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new TransportError("unavailable", `not connected within ${ms} ms`))
      opening.then((late) => late.close()).catch(() => undefined)
    }, ms)
  })
  try {
    return await Promise.race([opening, timeout])
  } finally {
    clearTimeout(timer)
  }
}

const checkServer = async (link: Link, allowOldServer: boolean): Promise<void> => {
  checkVersion(link.serverVersion, allowOldServer)
  try {
    await link.api("INFO", {})
  } catch (error) {
    // Nobody answers the JetStream API: the server runs without it. In a cluster without a leader it answers.
    if (error instanceof TransportError && error.reason === "unavailable" && error.outcome === "none") {
      throw new TransportError("unsupported", `this nats-server has no JetStream. ${JETSTREAM_ADVICE}`)
    }
    throw error
  }
}

// ── delay between attempts to reconnect ──────────────────────────────────────────────────────────────────────────────

/**
 * How long the client waits between its tries to connect again. The client asks before each look at the clock, not once
 * per try, so that tries are counted by what it says about them.
 */
/** Without a word from the runtime. */
const DEFAULT_DELAY_MS = 250

export class ReconnectDelay {
  readonly #delay: (tries: number) => number
  #tries = 0
  #wait = 0

  constructor(delay: (tries: number) => number = () => DEFAULT_DELAY_MS) {
    this.#delay = delay
    this.#begin()
  }

  /** Milliseconds between the last try and the next. */
  get wait(): number {
    return this.#wait
  }

  /** Counts the tries of this connection for as long as it lives. */
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

/** Which servers this transport works with, and what to do about the others. Pure. */
type Version = readonly [major: number, minor: number, patch: number]

const parse = (text: string): Version | undefined => {
  const [, major, minor, patch] = /^v?(\d+)\.(\d+)\.(\d+)/.exec(text) ?? []
  return major === undefined ? undefined : [Number(major), Number(minor), Number(patch)]
}

/**
 * 2.12.15, 2.14.5 and 2.15.0 are the first of their lines without known ways to lose what was acknowledged. 2.13 was
 * never a line of releases with fixes of its own.
 */
const isSafe = ([major, minor, patch]: Version): boolean => {
  if (major !== 2) return major > 2
  if (minor === 12) return patch >= 15
  if (minor === 14) return patch >= 5
  return minor >= 15
}

/** Below 2.12 there are no schedules. */
const canSchedule = ([major, minor]: Version): boolean => major > 2 || (major === 2 && minor >= 12)

/** Fails with `unsupported` when the server is too old, saying what to do. */
export const checkVersion = (text: string, allowOld: boolean): void => {
  const version = parse(text)
  if (version === undefined) throw new TransportError("unsupported", `the server does not say its version ("${text}")`)
  if (isSafe(version) || (allowOld && canSchedule(version))) return
  const wanted = "nats-server 2.15 or later, 2.14.5 or later, or 2.12.15 or later"
  const way = canSchedule(version)
    ? `Upgrade it, or connect with ?allowOldServer to accept faults that can lose tasks.`
    : `Upgrade it: before 2.12 it cannot keep due times.`
  throw new TransportError("unsupported", `this nats-server is ${text}; needed is ${wanted}. ${way}`)
}
