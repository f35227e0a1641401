/** A worker whose disk, or whose broker's store, is full: with real disks, limits and servers. */
import { readFileSync, writeFileSync } from "node:fs"
import { connect as dial } from "nats"
import { describe, expect, test } from "vitest"
import { type Disk, diskKinds, limitFiles } from "../support/servers/full-disk.ts"
import { startNats } from "../support/servers/nats.ts"
import { eventually, spawnScript, temporaryFolder } from "../support/servers/process.ts"
import { DEADLINE, linesOf, serviceProgram } from "./processes.ts"

/** Length of a lease in seconds: so short that the leases lapse while the disk is full. */
const LEASE = 2

/** The fields of HTTP's answers that these tests read. */
interface Body {
  readonly id: string
  readonly state?: string
  readonly outcome?: string
  readonly transitions?: ReadonlyArray<{ readonly state: string }>
}

/** A board whose storage can be filled and freed. */
interface Board extends Pick<Disk, "run">, AsyncDisposable {
  readonly url: string
  fill(): void | Promise<void>
  free(): void | Promise<void>
}

interface BoardKind {
  readonly name: string
  /** The message of a refused submission. */
  readonly refusal: RegExp
  /** The reason of the outage in `why` and in the log. */
  readonly reason: RegExp
  open(): Promise<Board>
}

const onDisks: ReadonlyArray<BoardKind> = diskKinds().map(({ name, make }) => ({
  name: `on sqlite, on a disk ${name}`,
  refusal: /board\.db: the disk (is full: free some space|reports an error: check)/,
  reason: /board\.db: the disk (is full: free some space|reports an error: check)/,
  open: async () => {
    const disk = await make()
    return { ...disk, url: `sqlite:${disk.folder}/board.db?lease=${LEASE}` }
  },
}))

/** A server whose storage is used up by another application's stream. */
const onNats: BoardKind = {
  name: "on a nats-server without room",
  refusal: /insufficient resources .*free space/,
  reason: /insufficient resources .*free space/,
  open: async () => {
    const server = await startNats({ limits: "max_file: 20MB" })
    const admin = await dial({ servers: server.url })
    const ask = async (subject: string, payload: string | Uint8Array): Promise<string> =>
      (await admin.request(subject, payload, { timeout: 5_000 })).string()
    await ask("$JS.API.STREAM.CREATE.OTHER", JSON.stringify({ name: "OTHER", subjects: ["other"], num_replicas: 1 }))
    return {
      url: `${server.url}?lease=${LEASE}`,
      run: spawnScript,
      fill: async () => {
        for (const size of [500_000, 5_000, 50])
          while (!(await ask("other", new Uint8Array(size))).includes("insufficient resources"));
      },
      free: async () => {
        expect(await ask("$JS.API.STREAM.PURGE.OTHER", "")).toContain('"success":true')
      },
      [Symbol.asyncDispose]: async () => {
        await admin.close()
        await server.stop()
      },
    }
  },
}

/** A server whose files may not grow. It answers, but stores nothing until it is restarted, even once it could write again. */
const onStuckNats: BoardKind = {
  name: "on a nats-server that cannot write",
  refusal: /the transport did not answer in time/,
  reason: /stores nothing now.*see its log.*must be restarted/,
  open: async () => {
    const server = await startNats()
    return {
      url: `${server.url}?lease=${LEASE}`,
      run: spawnScript,
      fill: () => limitFiles(server.pid, 100),
      free: () => server.restart(),
      [Symbol.asyncDispose]: () => server.stop(),
    }
  },
}

describe.concurrent.each([...onDisks, onNats, onStuckNats])("$name", (kind) => {
  test("submissions are refused with advice, the worker lives on and is not ready, and all jobs end once there is room", {
    timeout: 90_000,
  }, async () => {
    await using board = await kind.open()
    // The files of the test lie in a folder that is never full.
    using elsewhere = temporaryFolder()
    const options = JSON.stringify({ http: { port: 0 }, concurrency: 2 })
    await using service = board.run(serviceProgram(), [board.url, options])
    const [, url = ""] = await service.waitForLine(/^ready (.+)$/, DEADLINE)
    const file = (name: string) => `${elsewhere.path}/${name}`
    const [started, gate, ledger] = [file("started"), file("gate"), file("ledger")]
    const ask = async (path: string, body?: object) => {
      const answer = await fetch(`${url}${path}`, {
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
        headers: { "content-type": "application/json" },
      })
      return { status: answer.status, body: (await answer.json()) as Body }
    }
    const submit = (fields: object = {}) =>
      ask("/v1/jobs", { task: "e2e.step", input: { started, gate, ledger }, ...fields })
    const accepted: Array<string> = []
    for (let count = 0; count < 6; count++) {
      const { status, body } = await submit()
      expect(status).toBe(202)
      accepted.push(body.id)
    }
    await eventually(() => linesOf(started).length === 2, { message: "two run" })

    await board.fill()
    const refused = await submit()
    expect(refused).toMatchObject({
      status: 503,
      body: {
        code: "transport-unavailable",
        detail: expect.stringMatching(kind.refusal),
      },
    })
    await eventually(async () => (await ask("/readyz")).status === 503, { message: "it is red" })
    expect((await ask("/healthz")).status).toBe(200)
    expect((await ask(`/v1/jobs/${accepted.at(-1)}`)).body).toMatchObject({ state: "queued" })
    expect((await ask(`/v1/jobs/${accepted.at(-1)}/why`)).body).toMatchObject({
      causes: [{ code: "transport-down", reason: expect.stringMatching(kind.reason) }],
    })
    // The running jobs end, and their outcomes cannot be stored.
    writeFileSync(gate, "")
    await eventually(() => linesOf(ledger).length >= 2, { message: "two end" })
    const more: Array<number> = []
    await eventually(
      async () => {
        more.push((await submit()).status)
        return /Trying again in \S+ seconds… \(6\/100\)/.test(service.output)
      },
      { deadline: 60_000, every: 50, message: "it goes on trying" },
    )
    expect(new Set(more)).toEqual(new Set([503]))
    const lines = service.output.split("\n").length
    console.log(`${kind.name}: ${more.length} submissions were refused, and ${lines} lines tell of it`)
    expect(lines).toBeLessThan(40)
    expect(service.exit).toBeUndefined()

    await board.free()
    const freed = performance.now()
    await eventually(async () => (await ask("/readyz")).status === 200, { deadline: 60_000, message: "it is green" })
    console.log(`consuming ${Math.round(performance.now() - freed)} ms after there was room`)
    // The refusal says that a task can be submitted again under its id.
    const again = await submit({ id: refused.body.id })
    expect(again).toMatchObject({ status: 202, body: { id: refused.body.id } })
    accepted.push(refused.body.id)
    for (const id of accepted) {
      const { body } = await ask(`/v1/jobs/${id}/result?wait=20`)
      expect(body).toMatchObject({ state: "succeeded" })
      const { transitions = [] } = (await ask(`/v1/jobs/${id}`)).body
      expect(transitions.filter(({ state }) => state === "succeeded")).toHaveLength(1)
    }
    const runs = linesOf(ledger).map((line) => line.split(" ")[0] ?? "")
    const runsOf = (id: string) => runs.filter((each) => each === id).length
    console.log(`${runs.length} runs of ${accepted.length} jobs`)
    // Only a task that the worker held when its lease lapsed may run a second time.
    expect(runsOf(refused.body.id)).toBe(1)
    expect(accepted.filter((id) => runsOf(id) < 1 || runsOf(id) > 2)).toEqual([])
    if (refused.body.outcome === "none") expect(runs.filter((id) => !accepted.includes(id))).toEqual([])
    expect(readFileSync(started, "utf8")).toContain(`${service.pid}`)
  })
})
