/** Connects, and refuses servers that cannot keep what this transport promises, saying what to do about it. */
import { connect as dial, type NatsConnection } from "nats"
import { type ConnectOptions, TransportError } from "../../runtime/transport.ts"
import { type Config, connectionOptions } from "./config.ts"
import { JETSTREAM_ADVICE, ofClient, textOf } from "./errors.ts"
import { Link } from "./link.ts"
import { checkVersion } from "./version.ts"

/** Opens a connection of our own. Fails within `timeout`, and leaves nothing open then. */
export const openLink = async (config: Config, { name, timeout }: ConnectOptions): Promise<Link> => {
  const end = Date.now() + timeout
  const where = config.servers.join(", ")
  const dialling = dialOnce(config, name, timeout)
  const connection = await bounded(dialling, timeout, where, (late) => void late.close())
  const link = new Link({ connection, owned: true, ...(config.domain === undefined ? {} : { domain: config.domain }) })
  try {
    await bounded(checkServer(link, config.allowOldServer), Math.max(end - Date.now(), 1), where)
    return link
  } catch (error) {
    await link.close()
    throw error
  }
}

/** Uses a connection that the application holds, and never closes it. */
export const adoptLink = async (connection: NatsConnection, { timeout }: ConnectOptions): Promise<Link> => {
  if (connection.isClosed()) throw new TransportError("closed", "the connection that was given is closed")
  const link = new Link({ connection, owned: false })
  try {
    await bounded(checkServer(link, false), timeout, connection.getServer())
    return link
  } catch (error) {
    await link.close()
    throw error
  }
}

const dialOnce = async (config: Config, name: string, timeout: number): Promise<NatsConnection> => {
  try {
    return await dial(connectionOptions(config, name, timeout))
  } catch (error) {
    const classified = ofClient(error, `cannot connect to ${config.servers.join(", ")}`)
    // Whatever else keeps a first connection from being made (names, routes, protocols) may pass.
    if (classified.reason !== "internal") throw classified
    throw new TransportError("unavailable", `cannot connect to ${config.servers.join(", ")}: ${textOf(error)}`)
  }
}

const bounded = async <T>(work: Promise<T>, ms: number, where: string, late?: (result: T) => void): Promise<T> => {
  let timer: ReturnType<typeof setTimeout> | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new TransportError("unavailable", `no connection to ${where} within ${ms} ms`))
      // What comes after all must not stay open.
      work.then(late, () => undefined)
    }, ms)
  })
  try {
    return await Promise.race([work, timeout])
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
