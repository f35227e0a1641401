/** Connects, and refuses servers that cannot keep what this transport promises, saying what to do about it. */
import { connect as dial, type NatsConnection } from "nats"
import { type ConnectOptions, TransportError } from "../../../runtime/transport/mod.ts"
import { type Config, connectionOptions } from "./config.ts"
import { JETSTREAM_ADVICE, ofClient, textOf } from "./errors.ts"
import { Link } from "./link.ts"
import { Pace } from "./pace.ts"
import { checkVersion } from "./version.ts"

/** Opens a connection of our own, to a server that will do. */
export const openLink = async (config: Config, options: ConnectOptions): Promise<Link> => {
  const connection = await dialOnce(config, options)
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

const dialOnce = async (config: Config, options: ConnectOptions): Promise<NatsConnection> => {
  const what = `cannot connect to ${config.servers.join(", ")}`
  try {
    const pace = new Pace(options.reconnectDelay)
    const connection = await dial(connectionOptions(config, options, pace))
    void pace.follow(connection)
    return connection
  } catch (error) {
    if (isDistrust(error)) throw new TransportError("unauthorized", `${what}: ${textOf(error)}`)
    const classified = ofClient(error, what)
    // Whatever else keeps a first connection from being made (names, routes, protocols) may pass.
    if (classified.reason !== "internal") throw classified
    throw new TransportError("unavailable", `${what}: ${textOf(error)}`)
  }
}

/** One side does not accept the other's certificate: the errors of TLS come through the client as they are. */
const isDistrust = (error: unknown): boolean =>
  error instanceof Error && "code" in error && /CERT|VERIFY|_TLS_|_SSL_/.test(String(error.code))

/** The outcome of opening something, or `unavailable` when that takes longer; what comes too late is closed. */
export const bounded = async <T extends { close(): Promise<void> }>(opening: Promise<T>, ms: number): Promise<T> => {
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
