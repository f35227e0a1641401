/**
 * Workers of one host name in two PID namespaces, as in two containers with the network of their host: each is process 1
 * of its own, and neither sees the other's processes.
 */
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { type Client, connect } from "callboard"
import { expect, onTestFinished, test } from "vitest"
import { bundled } from "../support/servers/bundle.ts"
import { eventually, type Spawned, spawnScript, temporaryFolder } from "../support/servers/process.ts"

const CONTAINER = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]
/** Only Linux has such namespaces, and not every machine lets a user make one. */
const hasNamespaces = spawnSync(CONTAINER[0] ?? "", [...CONTAINER.slice(1), "true"]).status === 0

const DEADLINE = 30_000

interface Site {
  readonly client: Client
  /** Starts a service of one actor in a PID namespace of its own. */
  start(actor: string, options?: object): Spawned
}

const site = async (): Promise<Site> => {
  const folder = temporaryFolder()
  onTestFinished(() => folder[Symbol.dispose]())
  const transport = `sqlite:${folder.path}/board.db`
  const program = bundled(fileURLToPath(new URL("one-actor.ts", import.meta.url)))
  const client = await connect(transport)
  onTestFinished(() => client.close())
  const start = (actor: string, options: object = {}) => {
    const service = spawnScript(program, [transport, actor, JSON.stringify(options)], { prefix: CONTAINER })
    onTestFinished(() => service[Symbol.asyncDispose]())
    return service
  }
  return { client, start }
}

test.runIf(hasNamespaces)("two workers that nobody named live side by side", async () => {
  const { client, start } = await site()
  const services = [start("one"), start("two")]
  for (const service of services) expect(await service.waitForLine(/^ready (\d+)$/, DEADLINE)).toMatchObject({ 1: "1" })
  const beats = new Set<string>()
  await eventually(
    async () => {
      const workers = await client.workers()
      expect(new Set(workers.map(({ name }) => name)).size).toBe(2)
      for (const { heartbeatAt } of workers) beats.add(heartbeatAt)
      return beats.size >= 6
    },
    { deadline: DEADLINE, message: "both go on with their heartbeats" },
  )
  expect(services.map(({ output }) => /gives up|level=error/.test(output))).toEqual([false, false])
})

test.runIf(hasNamespaces)(
  "a worker keeps the tasks of a living one that it cannot see, and takes no name from it",
  async () => {
    const { client, start } = await site()
    const serves = start("slow", { name: "serves", concurrency: 1, prefetch: 1 })
    await serves.waitForLine(/^ready/, DEADLINE)
    const other = start("other", { name: "other", unknownGrace: 1 })
    await other.waitForLine(/^ready/, DEADLINE)

    // While the first one runs, only the other worker has room for the second, whose actor it does not serve.
    const jobs = [
      await client.submit("slow", { input: { ms: 4_000 } }),
      await client.submit("slow", { input: { ms: 0 } }),
    ]
    for (const job of jobs) await job.result({ timeout: 30 })

    const second = start("slow", { name: "serves" })
    expect(await second.exited).not.toMatchObject({ code: 0 })
    expect(second.output).toMatch(/name: a running worker is already named serves .*choose another name/)
    expect((await client.workers()).map(({ name }) => name).toSorted()).toEqual(["other", "serves"])
    expect(serves.output).not.toMatch(/gives up/)
  },
)
