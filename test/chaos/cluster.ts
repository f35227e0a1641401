/** A cluster of three nats-servers as a board of the long form, and the faults of its servers. */
import { setTimeout as sleep } from "node:timers/promises"
import { connect, type NatsConnection } from "nats"
import { Names } from "../../plugins/nats/mod.ts"
import { type BoardKind, type SharedBoard, scope } from "../e2e/boards.ts"
import type { NatsServer } from "../support/servers/nats.ts"
import { startNatsCluster } from "../support/servers/nats-cluster.ts"
import { eventually } from "../support/servers/process.ts"

const STREAM = new Names("callboard").queueStream

/** The server that leads the stream of tasks; `undefined` while there is none. */
const leaderOf = async (admin: NatsConnection): Promise<string | undefined> => {
  try {
    const answer: unknown = (await admin.request(`$JS.API.STREAM.INFO.${STREAM}`, "", { timeout: 1_000 })).json()
    if (typeof answer !== "object" || answer === null || !("cluster" in answer)) return undefined
    const { cluster } = answer
    if (typeof cluster !== "object" || cluster === null || !("leader" in cluster)) return undefined
    return typeof cluster.leader === "string" ? cluster.leader : undefined
  } catch {
    return undefined
  }
}

/** Makes the first server the leader of the stream, if the others agree. */
const leadByFirst = (admin: NatsConnection): Promise<unknown> =>
  admin
    .request(`$JS.API.STREAM.LEADER.STEPDOWN.${STREAM}`, JSON.stringify({ placement: { preferred: "n1" } }), {
      timeout: 3_000,
    })
    .catch(() => undefined)

/** How the servers fail, in turn. */
const FAULTS = ["the leader is killed", "the leader is frozen", "the leader is cut off from the others"] as const

/** Three servers, each with a copy of every stream. An outage takes one of them away, and is printed on the console. */
export const natsCluster: BoardKind = {
  name: "nats3",
  open: async (): Promise<SharedBoard> => {
    const own = scope()
    const cluster = own.keep(await startNatsCluster(3))
    // A frozen server does not answer the client's pings, so that the client soon connects to another server.
    const dial = () =>
      connect({ servers: servers(), maxReconnectAttempts: -1, pingInterval: 1_000, reconnectTimeWait: 100 })
    const servers = () => [...cluster.servers.values()].map(({ port }) => `127.0.0.1:${port}`)
    const admin = await dial()
    own.keep({ [Symbol.asyncDispose]: () => admin.close() })
    const isDone = async (request: string, body: object): Promise<boolean> => {
      const answer: unknown = (
        await admin.request(`$JS.API.${request}`, JSON.stringify(body), { timeout: 3_000 })
      ).json()
      return typeof answer === "object" && answer !== null && !("error" in answer)
    }
    // Its leader may not know the other servers yet, and then has no place for the copies of a stream.
    const probe = { name: "probe", subjects: ["probe"], num_replicas: 3, storage: "memory" }
    await eventually(() => isDone("STREAM.CREATE.probe", probe), {
      message: "the cluster takes streams with three copies",
    })
    await isDone("STREAM.DELETE.probe", {})
    const leader = async (): Promise<NatsServer> => {
      const name = await eventually(() => leaderOf(admin), { every: 200, message: "the stream has a leader" })
      const server = cluster.servers.get(name)
      if (server === undefined) throw new Error(`there is no server ${name}`)
      return server
    }
    let outages = 0
    return {
      ...own,
      url: (lease = 30) => `${cluster.url}?lease=${lease}&replicas=3`,
      restartBroker: async () => {
        const server = await leader()
        await server.kill()
        await server.restart()
      },
      blackout: async (ms) => {
        await Promise.all([...cluster.servers.values()].map((server) => server.kill()))
        await sleep(ms)
        await Promise.all([...cluster.servers.values()].map((server) => server.restart()))
      },
      outage: async (ms) => {
        const fault = FAULTS[outages++ % FAULTS.length]
        console.log(`${fault} for ${Math.round(ms / 100) / 10} s`)
        if (fault === "the leader is killed") {
          const server = await leader()
          await server.kill()
          await sleep(ms)
          await server.restart()
        } else if (fault === "the leader is frozen") {
          const server = await leader()
          server.pause()
          await sleep(ms)
          server.resume()
        } else {
          await leadByFirst(admin)
          const heal = await cluster.isolateFirst()
          await sleep(ms)
          await heal()
        }
      },
    }
  },
}
