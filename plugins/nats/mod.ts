/**
 * The network transport: JetStream keeps tasks, records and the store; core NATS carries notifications and broadcasts.
 *
 * `nats://[user:password@]host[:port][?option=…]`, or `tls://…`; the options are described in `connection/config.ts`.
 */
import type { NatsConnection } from "nats"
import { isObject } from "../../runtime/protocol/guards.ts"
import type { Driver, Plugin } from "../../runtime/transport/driver.ts"
import { type ConnectOptions, TransportError } from "../../runtime/transport/mod.ts"
import { readConfig, type StreamOptions } from "./connection/config.ts"
import { adoptLink, openLink, TLS_ADVICE, withTimeout } from "./connection/connect.ts"
import type { NatsLink } from "./connection/link.ts"
import { capabilitiesOf, openDriver } from "./driver.ts"

export { Names } from "./streams/names.ts"
export { capabilitiesOf }

const NAMESPACE = /^[A-Za-z0-9_-]{1,64}$/

const checkNatsOptions = ({ namespace, lease }: ConnectOptions): void => {
  if (!NAMESPACE.test(namespace))
    throw new TransportError("invalid", "a namespace must be 1 to 64 characters of A-Z a-z 0-9 _ -")
  if (!(lease >= 1_000))
    throw new TransportError("invalid", `a lease must be at least 1,000 milliseconds, not ${lease}`)
}

/** Connects, and builds the driver, both within the timeout. */
const open = (
  opening: Promise<NatsLink>,
  streams: StreamOptions,
  options: ConnectOptions,
  advice?: string,
): Promise<Driver> =>
  withTimeout(
    opening.then((link) => openDriver(link, streams, options)),
    options.timeout,
    advice,
  )

/** Recognizes a connection by its methods: the application may use another copy of the client library. */
const isConnection = (client: unknown): client is NatsConnection =>
  isObject(client) &&
  ["publish", "subscribe", "flush", "status", "isClosed", "getServer"].every(
    (name) => typeof Reflect.get(client, name) === "function",
  )

export const plugin: Plugin = {
  schemes: ["nats", "tls"],
  connect: async (url, options) => {
    checkNatsOptions(options)
    const config = readConfig(url)
    return open(openLink(config, options), config, options, config.tls && TLS_ADVICE)
  },
  adopt: (client, options) => {
    if (!isConnection(client)) return undefined
    return (async () => {
      checkNatsOptions(options)
      return open(adoptLink(client), { allowOldServer: false }, options)
    })()
  },
}

export default plugin
