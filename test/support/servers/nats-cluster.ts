/** A cluster of real nats-servers for tests. */

import { type Proxy, startProxy } from "../../unit/plugins/nats/proxy.ts"
import { type NatsServer, PortTaken, startNats } from "./nats.ts"
import { freePort } from "./process.ts"

export interface NatsCluster extends AsyncDisposable {
  /** A URL with the addresses of all servers. */
  readonly url: string
  /** The servers by their names in the cluster: `n1`, `n2` … */
  readonly servers: ReadonlyMap<string, NatsServer>
  /**
   * Cuts the first server, `n1`, off from the others; its clients keep their connections. Returns the function that
   * ends this.
   */
  isolateFirst(): Promise<() => Promise<void>>
}

/** How often a cluster is started anew when another process has taken one of its ports. */
const TRIES = 3

/** Starts a cluster. JetStream answers some seconds later, once the servers have elected a leader. */
export const startNatsCluster = async (count = 3): Promise<NatsCluster> => {
  for (let tries = 1; ; tries++) {
    try {
      return await startOn(await Promise.all(Array.from({ length: count }, freePort)))
    } catch (error) {
      if (!(error instanceof PortTaken) || tries === TRIES) throw error
    }
  }
}

const startOn = async (ports: ReadonlyArray<number>): Promise<NatsCluster> => {
  const proxies: ReadonlyArray<Proxy> = await Promise.all(ports.map((port) => startProxy(() => port)))
  const starting = await Promise.allSettled(
    ports.map(async (port, at) => {
      const name = `n${at + 1}`
      const behind = proxies.map((proxy) => proxy.port)
      const others = at === 0 ? behind.slice(1) : [behind[0], ...ports.slice(1, at)]
      const routes = others.map((other) => `nats://127.0.0.1:${other}`).join(", ")
      const cluster = [
        "name: lab",
        `listen: "127.0.0.1:${port}"`,
        `cluster_advertise: "127.0.0.1:${proxies[at]?.port}"`,
        `routes: [${routes}]`,
      ]
      return [name, await startNats({ config: `server_name: ${name}\ncluster { ${cluster.join(", ")} }` })] as const
    }),
  )
  const started = starting.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []))
  const servers = new Map(started)
  const stop = async () => {
    await Promise.all([...servers.values()].map((server) => server.stop()))
    await Promise.all(proxies.map((proxy) => proxy.stop()))
  }
  for (const each of starting) {
    if (each.status === "fulfilled") continue
    await stop()
    throw each.reason
  }
  return {
    url: `nats://${[...servers.values()].map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
    servers,
    isolateFirst: async () => {
      await Promise.all(proxies.map((proxy) => proxy.cut()))
      return async () => void (await Promise.all(proxies.map((proxy) => proxy.heal())))
    },
    [Symbol.asyncDispose]: stop,
  }
}
