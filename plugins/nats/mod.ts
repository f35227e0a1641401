/**
 * The distributed engine: JetStream carries the tasks, keeps the records and the store, and spreads the news.
 *
 * `nats://[user:password@]host[:port][?option=…]`, or `tls://…`; the options are described in config.ts.
 */
import type { NatsConnection } from "nats"
import { type ConnectOptions, type Plugin, TransportError } from "../../runtime/transport.ts"
import { readConfig } from "./config.ts"
import { adoptLink, openLink } from "./connect.ts"
import { openTransport } from "./transport.ts"

export { Names } from "./subject.ts"
export { capabilitiesOf } from "./transport.ts"

const NAMESPACE = /^[A-Za-z0-9_-]{1,64}$/

const check = ({ namespace, lease }: ConnectOptions): void => {
  if (!NAMESPACE.test(namespace)) throw new TransportError("invalid", "a namespace is 1 to 64 of A-Z a-z 0-9 _ -")
  if (!(lease >= 1_000)) throw new TransportError("invalid", `a lease is at least 1,000 milliseconds, not ${lease}`)
}

/** By its shape: the application may hold a connection of another copy of the client. */
const isConnection = (client: unknown): client is NatsConnection =>
  typeof client === "object" &&
  client !== null &&
  ["publish", "subscribe", "flush", "status", "isClosed", "getServer"].every(
    (name) => typeof Reflect.get(client, name) === "function",
  )

export const plugin: Plugin = {
  schemes: ["nats", "tls"],
  connect: async (url, options) => {
    check(options)
    const config = readConfig(url)
    return openTransport(await openLink(config, options), config, options)
  },
  adopt: (client, options) => {
    if (!isConnection(client)) return undefined
    return (async () => {
      check(options)
      return openTransport(await adoptLink(client, options), { allowOldServer: false }, options)
    })()
  },
}

export default plugin
