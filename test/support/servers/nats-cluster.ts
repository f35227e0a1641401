/** A cluster of real nats-servers for tests. */
import { type NatsServer, startNats } from "./nats.ts"
import { freePort } from "./process.ts"

export interface NatsCluster extends AsyncDisposable {
  /** Names every server. */
  readonly url: string
  /** By the name that they have in the cluster: `n1`, `n2` … */
  readonly servers: ReadonlyMap<string, NatsServer>
}

/** Starts so many servers. JetStream answers some seconds later, when they have chosen a leader. */
export const startNatsCluster = async (count = 3): Promise<NatsCluster> => {
  const ports = await Promise.all(Array.from({ length: count }, freePort))
  const routes = ports.map((port) => `nats://127.0.0.1:${port}`).join(", ")
  const started = await Promise.all(
    ports.map(async (port, at) => {
      const name = `n${at + 1}`
      const config = `server_name: ${name}\ncluster { name: lab, listen: "127.0.0.1:${port}", routes: [${routes}] }`
      return [name, await startNats({ config })] as const
    }),
  )
  const servers = new Map(started)
  return {
    url: `nats://${[...servers.values()].map(({ port }) => `127.0.0.1:${port}`).join(",")}`,
    servers,
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...servers.values()].map((server) => server.stop()))
    },
  }
}
