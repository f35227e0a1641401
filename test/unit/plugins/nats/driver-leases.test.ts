/** The nats driver by itself: whose lease its consumers have. */
import { actor, serve } from "callboard"
import { connect as dial } from "nats"
import { describe, expect, test } from "vitest"
import { Names } from "../../../../plugins/nats/mod.ts"
import { eventually } from "../../../support/servers/process.ts"
import { closing, driversOnNats, postingOf, publish, take } from "./drivers.ts"

const nats = driversOnNats()
const { direct } = nats

describe("the lease of a consumer", () => {
  const leaseOf = async (): Promise<unknown> => {
    await using client = closing(await dial({ servers: nats.server.url }))
    const names = new Names(nats.namespace)
    return (await (await client.jetstreamManager()).consumers.info(names.queueStream, names.consumer("q", 4))).config
      .ack_wait
  }

  test("is that of the worker: what only submits has no say in it", async () => {
    const worker = await direct(6_000)
    const posting = postingOf()
    await publish(worker, posting)
    await take(worker)
    const client = await direct(30_000)
    await publish(client, postingOf())
    await take(worker)
    expect(await leaseOf()).toBe(6_000 * 1_000_000)
  })

  test("that two workers differ about is named by the one that comes later", async () => {
    const lines: Array<string> = []
    const note = (message: string) => void lines.push(message)
    const log = { debug: note, info: note, warn: (message: string) => note(`warn ${message}`), error: note }
    const at = async (name: string, lease: string, queues: ReadonlyArray<string>) => {
      const actors = [actor("any", { methods: { run: () => 1 } })]
      const common = { transport: nats.server.url, namespace: nats.namespace, actors, signals: false, log } as const
      const service = await serve({ ...common, name, lease, queues })
      nats.resources.defer(async () => void (await service.stop({ now: true })))
      await service.ready()
    }
    const warnings = () => lines.filter((line) => line.startsWith("warn"))
    await at("elsewhere", "20 seconds", ["other"])
    await at("longer", "30 seconds", ["q", "r"])
    await at("same", "30 seconds", ["q"])
    expect(warnings()).toEqual([])
    await at("shorter", "6 seconds", ["q"])
    await eventually(() => warnings().length === 2, { message: "both workers are named" })
    expect(warnings().toSorted()).toEqual([
      expect.stringMatching(/worker longer of the same queue has a lease of 30 s, but this worker has one of 6 s/),
      expect.stringMatching(/worker same of the same queue has a lease of 30 s, but this worker has one of 6 s/),
    ])
  })

  test("becomes that of the worker where a submitter has made it", async () => {
    await publish(await direct(30_000), postingOf())
    expect(await leaseOf()).toBe(30_000 * 1_000_000)
    await take(await direct(6_000))
    expect(await leaseOf()).toBe(6_000 * 1_000_000)
  })
})
