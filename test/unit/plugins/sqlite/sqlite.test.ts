/** The sqlite transport under the conformance kit, and what only it promises: files, locks, times, shared connections. */
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterAll, afterEach, describe, expect, test, vi } from "vitest"
import { APPLICATION_ID, SCHEMA_VERSION } from "../../../../plugins/sqlite/database/schema.ts"
import { plugin } from "../../../../plugins/sqlite/mod.ts"
import {
  type Capabilities,
  type ConnectOptions,
  TOMBSTONE_MS,
  type Transport,
  TransportError,
} from "../../../../runtime/transport/mod.ts"
import { type Harness, register } from "../../../kit/mod.ts"
import { recordOf, taskOf } from "../../../kit/task.ts"
import { eventually, spawnScript, temporaryFolder } from "../../../support/servers/process.ts"
import { corrupt } from "./corrupt.ts"

const folder = temporaryFolder()
afterAll(() => folder.remove())

const capabilities: Capabilities = {
  durability: "fsync",
  dedupeWindow: Number.POSITIVE_INFINITY,
  delay: true,
  priorityBands: 10,
  front: true,
  keyed: false,
  maxTask: 4 * 1024 * 1024,
  maxRecord: 32 * 1024 * 1024,
  leaseResolution: 600,
  dueResolution: 600,
  reach: "host",
  atomicSettle: true,
  browse: true,
}

const kitFile = join(folder.path, "kit.db")

const harness: Harness = {
  name: "sqlite",
  slack: 2_500,
  capabilities,
  connect: (options) => plugin.connect(new URL(`sqlite:${kitFile}`), options),
  corrupt: async (queue, bytes, namespace) => corrupt(kitFile, queue, bytes, namespace),
}

register(test, harness, { spared: "omit" })

// ── what only this transport promises ────────────────────────────────────────────────────────────────────────────────

const never = new AbortController().signal

const options = (changes: Partial<ConnectOptions> = {}): ConnectOptions => ({
  namespace: "test",
  lease: 30_000,
  name: "test",
  timeout: 1_000,
  ...changes,
})

const opened: Array<{ close(): unknown }> = []
afterEach(async () => {
  vi.useRealTimers()
  for (const each of opened.splice(0).reverse()) await each.close()
})

let files = 0
const freshFile = (): string => join(folder.path, `${++files}.db`)

const connect = async (url: string, changes?: Partial<ConnectOptions>): Promise<Transport> => {
  const transport = await plugin.connect(new URL(url), options(changes))
  opened.push(transport)
  return transport
}

const adopt = async (handle: DatabaseSync): Promise<Transport> => {
  const transport = await plugin.adopt?.(handle, options())
  if (transport === undefined) throw new Error("not adopted")
  opened.push(transport)
  return transport
}

const database = (path: string): DatabaseSync => {
  const handle = new DatabaseSync(path)
  opened.push({ close: () => handle.isOpen && handle.close() })
  return handle
}

const errorOf = async (promise: Promise<unknown>): Promise<TransportError> => {
  const error = await promise.then(
    () => undefined,
    (cause: unknown) => cause,
  )
  if (error instanceof TransportError) return error
  throw new Error(`expected a TransportError, found ${String(error)}`)
}

const pullOne = async (transport: Transport, queue: string) => {
  const [delivery] = await transport.queue.pull({ queues: [queue], max: 1, wait: 5_000 }, never)
  if (delivery === undefined) throw new Error("no task came")
  return delivery
}

describe("opening", () => {
  test.each([
    ["sqlite://jobs.db", /sqlite:jobs\.db/],
    ["sqlite::memory:", /memory:/],
    ["sqlite:", /names no file/],
    ["sqlite:x.db?sync=sometimes", /full or normal/],
    ["sqlite:x.db?synk=full", /"synk"/],
    ["sqlite:%zz.db", /%25/],
    ["sqlite:job#1.db", /%23/],
  ])("%s is refused with the reason", async (url, message) => {
    const error = await errorOf(connect(url))
    expect(error.reason).toBe("invalid")
    expect(error.message).toMatch(message)
  })

  test("a folder .callboard is made, and git ignores it", async () => {
    const path = join(folder.path, "fresh", ".callboard")
    await connect(`sqlite:${path}/board.db`)
    expect(readFileSync(join(path, ".gitignore"), "utf8")).toBe("*\n")
  })

  test.each([0o000, 0o022])("its folder is for its owner alone, with all that is in it (umask %i)", async (umask) => {
    const parent = join(folder.path, `owner-${umask}`)
    const path = join(parent, ".callboard")
    const program = `
      import { plugin } from ${JSON.stringify(new URL("../../../../plugins/sqlite/mod.ts", import.meta.url).href)}
      import { taskOf } from ${JSON.stringify(new URL("../../../kit/task.ts", import.meta.url).href)}
      process.umask(${umask})
      const options = { namespace: "test", lease: 30_000, name: "test", timeout: 1_000 }
      const transport = await plugin.connect(new URL("sqlite:${path}/board.db"), options)
      await transport.queue.publish([taskOf({ id: "a", queue: "q" })])
      await transport.queue.pull({ queues: ["other"], max: 1, wait: 60_000 }, new AbortController().signal)`
    const script = join(folder.path, `owner-${umask}.ts`)
    writeFileSync(script, program)
    await using writer = spawnScript(script)
    await eventually(() => existsSync(join(path, "board.db-bells")), { message: "the writer waits for tasks" })
    const names = readdirSync(path)
    expect(names, writer.output).toEqual(
      expect.arrayContaining([".gitignore", "board.db", "board.db-shm", "board.db-wal"]),
    )
    const modeOf = (...names: Array<string>) => statSync(join(path, ...names)).mode & 0o777
    expect(modeOf()).toBe(0o700)
    expect(modeOf("board.db-bells")).toBe(0o700)
    for (const name of names.filter((each) => each !== "board.db-bells"))
      expect(`${name} ${modeOf(name).toString(8)}`).toBe(`${name} 600`)
    // The project's own folder keeps to the umask.
    expect(statSync(parent).mode & 0o777).toBe(0o777 & ~umask)
  })

  test("a folder .callboard that is there keeps its rights", async () => {
    const path = join(folder.path, "kept", ".callboard")
    mkdirSync(path, { recursive: true })
    chmodSync(path, 0o750)
    await connect(`sqlite:${path}/board.db`)
    expect(statSync(path).mode & 0o777).toBe(0o750)
    expect(statSync(join(path, "board.db")).mode & 0o777).toBe(0o600)
  })

  test("any other folder must be there", async () => {
    const error = await errorOf(connect(`sqlite:${folder.path}/absent/board.db`))
    expect(error.reason).toBe("invalid")
    expect(error.message).toMatch(/absent: there is no such folder/)
    expect(existsSync(join(folder.path, "absent"))).toBe(false)
  })

  test("a folder in place of the file is refused", async () => {
    mkdirSync(join(folder.path, "folder.db"))
    expect((await errorOf(connect(`sqlite:${folder.path}/folder.db`))).message).toMatch(/is a folder/)
  })

  test("a file that is no database is refused and left as it is", async () => {
    const path = freshFile()
    const text = "this is no database, whatever its name says. ".repeat(40)
    writeFileSync(path, text)
    const error = await errorOf(connect(`sqlite:${path}`))
    expect(error.reason).toBe("invalid")
    expect(error.message).toMatch(/not an SQLite database/)
    expect(readFileSync(path, "utf8")).toBe(text)
  })

  test("the database of another program is refused and left as it is", async () => {
    const path = freshFile()
    const other = database(path)
    other.exec("CREATE TABLE theirs (a)")
    const error = await errorOf(connect(`sqlite:${path}`))
    expect(error.reason).toBe("unsupported")
    expect(error.message).toMatch(/another program.*DatabaseSync/)
    expect(other.prepare("PRAGMA journal_mode").get()).toMatchObject({ journal_mode: "delete" })
  })

  test("a file of a newer version is refused with what to do", async () => {
    const path = freshFile()
    await (await connect(`sqlite:${path}`)).close()
    const handle = database(path)
    expect(handle.prepare("PRAGMA application_id").get()).toMatchObject({ application_id: APPLICATION_ID })
    expect(handle.prepare("PRAGMA user_version").get()).toMatchObject({ user_version: SCHEMA_VERSION })
    handle.exec(`PRAGMA user_version = ${SCHEMA_VERSION + 1}`)
    const error = await errorOf(connect(`sqlite:${path}`))
    expect(error.reason).toBe("unsupported")
    expect(error.message).toMatch(/newer Callboard.*upgrade/)
  })

  test("a file that another program keeps locked is refused in time", async () => {
    const path = freshFile()
    database(path).exec("PRAGMA locking_mode = EXCLUSIVE; CREATE TABLE t (a); BEGIN EXCLUSIVE")
    const start = performance.now()
    const error = await errorOf(connect(`sqlite:${path}`, { timeout: 300 }))
    expect(error.reason).toBe("unavailable")
    expect(error.message).toMatch(/locked: end that program/)
    expect(performance.now() - start).toBeLessThan(4_000)
  })

  test("several connections create one file at the same time", async () => {
    const path = freshFile()
    const all = await Promise.all(Array.from({ length: 6 }, () => connect(`sqlite:${path}`)))
    await all[0]?.queue.publish([taskOf({ id: "one", queue: "q" })])
    expect((await all[5]?.records?.find("one"))?.record.id).toBe("one")
  })

  test("sync=normal is declared as less than fsync", async () => {
    expect((await connect(`sqlite:${freshFile()}?sync=normal`)).capabilities.durability).toBe("process")
  })
})

describe("a lock that somebody else holds", () => {
  test("stops neither the event loop nor what can be read, and work is done once it is free", async () => {
    const path = freshFile()
    const transport = await connect(`sqlite:${path}`)
    await transport.queue.publish([taskOf({ id: "before", queue: "q" })])
    const other = database(path)
    other.exec("BEGIN IMMEDIATE")
    let ticks = 0
    const ticking = setInterval(() => ticks++, 5)
    const published = transport.queue.publish([taskOf({ id: "during", queue: "q" })])
    expect((await transport.records?.find("before"))?.record.state).toBe("queued")
    await new Promise((resolve) => setTimeout(resolve, 300))
    clearInterval(ticking)
    other.exec("COMMIT")
    expect(await published).toEqual([{ status: "stored" }])
    expect(ticks).toBeGreaterThan(10)
  })

  test("fails what waits for it too long, says so, and recovers", async () => {
    const path = freshFile()
    const transport = await connect(`sqlite:${path}`)
    const statuses: Array<string> = []
    transport.onStatus((status) => statuses.push(status))
    const other = database(path)
    other.exec("BEGIN IMMEDIATE")
    const start = performance.now()
    const [receipt] = await transport.queue.publish([taskOf({ id: "a", queue: "q" })])
    expect(performance.now() - start).toBeLessThan(2_500)
    expect(receipt).toMatchObject({ status: "failed", error: { reason: "unavailable", outcome: "none" } })
    expect((await errorOf(transport.store?.write([{ key: "a" }]) ?? Promise.resolve())).retryable).toBe(true)
    other.exec("COMMIT")
    expect(await transport.queue.publish([taskOf({ id: "a", queue: "q" })])).toEqual([{ status: "stored" }])
    await eventually(() => statuses.length === 2, { message: "both changes are told" })
    expect(statuses).toEqual(["disconnected", "connected"])
  })
})

describe("a connection that the application holds", () => {
  test("is used and stays open", async () => {
    const handle = database(freshFile())
    handle.exec("CREATE TABLE theirs (a); PRAGMA user_version = 7; PRAGMA journal_mode = WAL")
    const transport = await adopt(handle)
    expect(transport.capabilities).toMatchObject({ durability: "fsync", reach: "host" })
    await transport.queue.publish([taskOf({ id: "a", queue: "q" })])
    await transport.close()
    expect(handle.isOpen).toBe(true)
    expect(handle.prepare("PRAGMA user_version").get()).toMatchObject({ user_version: 7 })
    expect(handle.prepare("SELECT count(*) AS n FROM callboard_job").get()).toMatchObject({ n: 1 })
  })

  test("may be in memory, and says what that is worth", async () => {
    const transport = await adopt(database(":memory:"))
    expect(transport.capabilities).toMatchObject({ durability: "none", reach: "process" })
    await transport.queue.publish([taskOf({ id: "a", queue: "q" })])
    expect((await pullOne(transport, "q")).fresh).toBe(true)
  })

  test("may be inside a transaction of the application, which is waited for", async () => {
    const handle = database(freshFile())
    const transport = await adopt(handle)
    handle.exec("CREATE TABLE theirs (a); BEGIN; INSERT INTO theirs VALUES (1)")
    const published = transport.queue.publish([taskOf({ id: "a", queue: "q" })])
    await new Promise((resolve) => setTimeout(resolve, 50))
    handle.exec("ROLLBACK")
    expect(await published).toEqual([{ status: "stored" }])
    expect(handle.prepare("SELECT count(*) AS n FROM theirs").get()).toMatchObject({ n: 0 })
  })

  test("may have other defaults and its own patience", async () => {
    const path = freshFile()
    const handle = new DatabaseSync(path, { readBigInts: true, timeout: 3_000 })
    opened.push({ close: () => handle.close() })
    const transport = await adopt(handle)
    const other = database(path)
    other.exec("BEGIN IMMEDIATE")
    const start = performance.now()
    const published = transport.queue.publish([taskOf({ id: "a", queue: "q" })])
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(performance.now() - start).toBeLessThan(2_500)
    other.exec("COMMIT")
    expect(await published).toEqual([{ status: "stored" }])
    expect(handle.prepare("PRAGMA busy_timeout").get()).toMatchObject({ timeout: 3_000n })
  })

  test("is refused when it is closed, and anything else is not ours", async () => {
    const handle = database(freshFile())
    handle.close()
    expect((await errorOf(adopt(handle))).reason).toBe("invalid")
    expect(plugin.adopt?.({}, options())).toBeUndefined()
  })
})

describe("what was kept long enough", () => {
  const end = async (transport: Transport, id: string): Promise<void> => {
    const posting = taskOf({ id, queue: "q" })
    await transport.queue.publish([posting])
    const { token, fence } = await pullOne(transport, "q")
    const record = recordOf(posting, "succeeded", { fence, keepMs: 1_000, result: { large: true } })
    expect(await transport.queue.settle([{ token, record, then: { kind: "ack" } }])).toEqual([{ status: "settled" }])
  }

  test("is a tombstone, then nothing, before maintenance has come by", async () => {
    const transport = await connect(`sqlite:${freshFile()}`)
    await end(transport, "a")
    const { records } = transport
    const now = Date.now()
    vi.useFakeTimers({ toFake: ["Date"], now: now + 2_000 })
    const found = await records?.find("a")
    expect(found?.record).toMatchObject({ id: "a", state: "succeeded", run: 1, tombstone: true })
    expect(found?.record.result).toBeUndefined()
    expect((await records?.query({ limit: 10 }))?.records).toEqual([])
    expect(await transport.queue.publish([taskOf({ id: "a", queue: "q" })])).toEqual([{ status: "duplicate" }])
    vi.setSystemTime(now + 2_000 + TOMBSTONE_MS)
    expect(await records?.find("a")).toBeUndefined()
    expect(await transport.queue.publish([taskOf({ id: "a", queue: "q" })])).toEqual([{ status: "stored" }])
  })

  test("is buried and removed by maintenance; what waits never is", { timeout: 120_000 }, async () => {
    const path = freshFile()
    const transport = await connect(`sqlite:${path}`)
    for (let each = 0; each < 5; each++) await end(transport, `ended-${each}`)
    await transport.queue.publish([taskOf({ id: "waits", queue: "other", expires: Date.now() + 1_000 })])
    const handle = database(path)
    const graves = () => handle.prepare("SELECT count(*) AS n, sum(grave) AS graves FROM callboard_job").get()
    const now = Date.now()
    vi.useFakeTimers({ toFake: ["Date"], now: now + 2_000 })
    await eventually(() => graves()?.["graves"] === 5, { message: "five graves" })
    expect(graves()).toMatchObject({ n: 6 })
    vi.setSystemTime(now + 3_000 + TOMBSTONE_MS)
    await eventually(() => graves()?.["n"] === 1, { message: "only what waits is left" })
    expect((await transport.records?.find("waits"))?.record.id).toBe("waits")
  })
})

describe("reading what is in the file", () => {
  test("the derived record of a task that says nothing of its submission does not change with time", async () => {
    const transport = await connect(`sqlite:${freshFile()}`)
    const { message, ...posting } = taskOf({ id: "a", queue: "q", due: Date.now() + 60_000 })
    const { callboard: _own, ...headers } = message.headers
    await transport.queue.publish([{ ...posting, message: { ...message, headers } }])
    const first = await transport.records?.find("a")
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(await transport.records?.find("a")).toEqual(first)
    expect(first?.record).toMatchObject({ state: "scheduled", dueAt: posting.due })
  })

  test("ids of every form come back as they were", async () => {
    const transport = await connect(`sqlite:${freshFile()}`)
    const uuid = crypto.randomUUID()
    const ids = [uuid, uuid.toUpperCase(), uuid.replaceAll("-", ""), "a/1/0", "ü€😀", "zero\0byte", "x".repeat(255)]
    const receipts = await transport.queue.publish(ids.map((id) => taskOf({ id, queue: "q" })))
    expect(receipts.every(({ status }) => status === "stored")).toBe(true)
    expect(await transport.queue.waiting?.("q", 100)).toEqual(ids)
    const page = await transport.records?.query({ limit: 100 })
    expect(page?.records.map(({ id }) => id).sort()).toEqual([...ids].sort())
  })

  test("rare jobs are found among many, page by page, in every order of filters", async () => {
    const transport = await connect(`sqlite:${freshFile()}`)
    const count = 3_000
    const postings = Array.from({ length: count }, (_, at) =>
      taskOf({
        id: `job-${at}`,
        queue: at % 3 === 0 ? "third" : "q",
        task: at % 500 === 0 ? "rare" : "usual",
        ...(at % 250 === 0 ? { headers: { root_id: "job-0", parent_id: "job-1", group: "g" } } : {}),
      }),
    )
    await transport.queue.publish(postings)
    const deliveries = await transport.queue.pull({ queues: ["third"], max: 1_000, wait: 0 }, never)
    await transport.queue.settle(
      deliveries.map(({ token, fence, message }, at) => {
        const id = "headers" in message ? String(message.headers["id"]) : ""
        const posting = postings[Number(id.slice(4))]
        if (posting === undefined) throw new Error(`no posting ${id}`)
        const state = at % 100 === 0 ? "failed" : "succeeded"
        const dead = at % 200 === 0 ? { dead: "lost" } : {}
        return { token, record: recordOf(posting, state, { fence, ...dead }), then: { kind: "ack" as const } }
      }),
    )
    const all = async (query: object): Promise<ReadonlyArray<string>> => {
      const ids: Array<string> = []
      let after: string | undefined
      do {
        const page = await transport.records?.query({ limit: 4, ...query, ...(after === undefined ? {} : { after }) })
        ids.push(...(page?.records.map(({ id }) => id) ?? []))
        after = page?.next
      } while (after !== undefined)
      return ids
    }
    const newest = (step: number): ReadonlyArray<string> =>
      Array.from({ length: count / step }, (_, at) => `job-${count - step * (at + 1)}`)
    expect(await all({ states: ["failed"] })).toEqual(newest(300))
    expect(await all({ states: ["failed", "cancelled"], dead: true })).toEqual(newest(600))
    expect(await all({ dead: true })).toEqual(newest(600))
    expect(await all({ task: "rare" })).toEqual(newest(500))
    expect(await all({ task: "rare", states: ["queued"] })).toEqual(newest(500).filter((id) => Number(id.slice(4)) % 3))
    expect(await all({ rootId: "job-0" })).toEqual(newest(250))
    expect(await all({ parentId: "job-1", queue: "third" })).toEqual(newest(750))
    expect(await all({ group: "g", states: ["succeeded"] })).toEqual(
      newest(750).filter((id) => (Number(id.slice(4)) / 3) % 100),
    )
    expect((await all({ states: ["succeeded"] })).length).toBe(990)
  })

  test("queues are counted as they are, however many tasks they hold", async () => {
    const transport = await connect(`sqlite:${freshFile()}`, { lease: 1_000 })
    const due = Date.now() + 60_000
    const ready = Array.from({ length: 900 }, (_, at) => taskOf({ id: `r-${at}`, queue: "q", priority: at % 10 }))
    const later = Array.from({ length: 300 }, (_, at) => taskOf({ id: `s-${at}`, queue: "q", due: due + (at % 7) }))
    await transport.queue.publish([...ready, ...later, taskOf({ id: "other", queue: "b" })])
    await transport.queue.pull({ queues: ["q"], max: 100, wait: 0 }, never)
    const stats = await transport.queue.stats?.()
    expect(stats).toEqual([
      { queue: "b", ready: 1, scheduled: 0, inFlight: 0, oldest: expect.any(Number) },
      { queue: "q", ready: 800, scheduled: 300, inFlight: 100, oldest: expect.any(Number) },
    ])
    // What nobody settled in time waits again, whether somebody has looked since or not.
    await new Promise((resolve) => setTimeout(resolve, 1_050))
    expect((await transport.queue.stats?.())?.[1]).toMatchObject({ ready: 900, scheduled: 300, inFlight: 0 })
  })
})

describe("one transaction for what is asked in one turn", () => {
  // Repeated: on a busy machine a transaction may be over its time and be cut in two.
  test("publishes, a pull and store writes share a commit; one that is refused fails alone", { retry: 5 }, async () => {
    const path = freshFile()
    const transport = await connect(`sqlite:${path}`)
    const commits = async (): Promise<number> => {
      const before = database(path).prepare("SELECT last FROM callboard_counter").get()?.["last"]
      return Number(before)
    }
    const before = await commits()
    const [receipts, deliveries, written, refused] = await Promise.all([
      Promise.all(
        Array.from({ length: 20 }, (_, at) => transport.queue.publish([taskOf({ id: `t-${at}`, queue: "q" })])),
      ),
      transport.queue.pull({ queues: ["q"], max: 50, wait: 0 }, never),
      transport.store?.write([{ key: "k", value: Uint8Array.of(1) }]),
      transport.queue.publish([{ ...taskOf({ id: "bad", queue: "q" }), level: 99 }]),
    ])
    expect(receipts.flat().every(({ status }) => status === "stored")).toBe(true)
    // The pull does not wait, and yet it sees them: it was served at the end of the same transaction.
    expect(deliveries).toHaveLength(20)
    expect(written).toBe("written")
    expect(refused[0]).toMatchObject({ status: "failed", error: { reason: "invalid" } })
    // 20 rows, one fence, one revision.
    expect((await commits()) - before).toBe(22)
  })

  test("what the database itself refuses fails alone, and its neighbours are stored", async () => {
    const handle = database(freshFile())
    const transport = await adopt(handle)
    handle.exec(
      `CREATE TRIGGER poison BEFORE INSERT ON callboard_job WHEN NEW.task = 'poison'
       BEGIN SELECT RAISE(ABORT, 'refused for the test'); END`,
    )
    const tasks = Array.from({ length: 9 }, (_, at) =>
      taskOf({ id: `t-${at}`, queue: "q", task: at === 4 ? "poison" : "fine" }),
    )
    const [together, alone] = await Promise.all([
      transport.queue.publish(tasks),
      transport.queue.publish([taskOf({ id: "other", queue: "q" })]),
    ])
    expect(together.map(({ status }) => status)).toEqual(tasks.map((_, at) => (at === 4 ? "failed" : "stored")))
    expect(together[4]).toMatchObject({ error: { reason: "internal", message: expect.stringMatching(/for the test/) } })
    expect(alone).toEqual([{ status: "stored" }])
  })

  test("a full disk is told as such, takes nothing back, and is got over", async () => {
    const handle = database(freshFile())
    const transport = await adopt(handle)
    const pages = Number(Object.values(handle.prepare("PRAGMA page_count").get() ?? {})[0])
    handle.exec(`PRAGMA max_page_count = ${pages + 8}`)
    const statuses: Array<string> = []
    const body = new Uint8Array(10_000)
    for (let each = 0; each < 20; each++) {
      const [receipt] = await transport.queue.publish([taskOf({ id: `t-${each}`, queue: "q", body })])
      statuses.push(receipt?.status ?? "")
      if (receipt?.status !== "failed") continue
      expect(receipt.error).toMatchObject({ reason: "unavailable", message: expect.stringMatching(/disk is full/) })
      break
    }
    expect(statuses.at(-1)).toBe("failed")
    handle.exec("PRAGMA max_page_count = 100000")
    const [again] = await transport.queue.publish([taskOf({ id: `t-${statuses.length - 1}`, queue: "q", body })])
    expect(again).toEqual({ status: "stored" })
    expect(await transport.queue.waiting?.("q", 100)).toEqual(statuses.map((_, at) => `t-${at}`))
  })
})
