/** The sqlite transport under the conformance kit, and what only it promises: files, locks, times, shared connections. */
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { afterAll, afterEach, describe, expect, test, vi } from "vitest"
import { APPLICATION_ID, SCHEMA_VERSION } from "../../../../plugins/sqlite/database/schema.ts"
import { plugin } from "../../../../plugins/sqlite/mod.ts"
import type { Driver } from "../../../../runtime/transport/driver.ts"
import { type ConnectOptions, TransportError } from "../../../../runtime/transport/mod.ts"
import type { Query } from "../../../../runtime/transport/optional.ts"
import { registerPlugin } from "../../../kit/conformance.ts"
import type { Harness } from "../../../kit/mod.ts"
import { eventually, spawnScript, temporaryFolder } from "../../../support/servers/process.ts"
import { corrupt } from "./corrupt.ts"
import { find, outcome, posted, publish, take, takeOne } from "./helpers.ts"

const folder = temporaryFolder()
afterAll(() => folder.remove())

const kitFile = join(folder.path, "kit.db")

const harness: Harness = {
  name: "sqlite",
  slack: 5_000,
  capabilities: {
    durability: "fsync",
    reach: "host",
    atomic: true,
    waits: true,
    dedupeWindow: Number.POSITIVE_INFINITY,
    delay: Number.POSITIVE_INFINITY,
    bands: 10,
    front: true,
    maxTask: 4 * 1024 * 1024,
    maxRecord: 32 * 1024 * 1024,
    leaseResolution: 600,
    dueResolution: 600,
  },
  connect: (options) => plugin.connect(new URL(`sqlite:${kitFile}`), options),
  corrupt: async (queue, bytes, namespace) => corrupt(kitFile, queue, bytes, namespace),
}

registerPlugin(test, harness, { spared: "omit" })

// ── what only this transport promises ────────────────────────────────────────────────────────────────────────────────

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

const connect = async (url: string, changes?: Partial<ConnectOptions>): Promise<Driver> => {
  const driver = await plugin.connect(new URL(url), options(changes))
  opened.push(driver)
  return driver
}

const adopt = async (handle: DatabaseSync): Promise<Driver> => {
  const driver = await plugin.adopt?.(handle, options())
  if (driver === undefined) throw new Error("not adopted")
  opened.push(driver)
  return driver
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

describe("opening", () => {
  test.each([
    ["sqlite://jobs.db", /sqlite:jobs\.db/],
    ["sqlite::memory:", /memory:/],
    ["sqlite:", /has no file/],
    ["sqlite:x.db?sync=sometimes", /full or normal/],
    ["sqlite:x.db?synk=full", /^\?synk is not an option of sqlite:/],
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

  /** Starts a process that publishes into a file, and waits for tasks on it; returns the rights of what is in its folder. */
  const rightsIn = async (path: string, umask: number): Promise<ReadonlyMap<string, string>> => {
    const program = `
      import { plugin } from ${JSON.stringify(new URL("../../../../plugins/sqlite/mod.ts", import.meta.url).href)}
      import { publish, take } from ${JSON.stringify(new URL("./helpers.ts", import.meta.url).href)}
      process.umask(${umask})
      const options = { namespace: "test", lease: 30_000, name: "test", timeout: 1_000 }
      const driver = await plugin.connect(new URL("sqlite:${path}/board.db"), options)
      await publish(driver, "a")
      await take(driver, { queue: "other", wait: 60_000 })`
    const script = join(folder.path, `rights-${umask}.ts`)
    writeFileSync(script, program)
    await using _writer = spawnScript(script)
    await eventually(() => existsSync(join(path, "board.db-bells")), { message: "the writer waits for tasks" })
    return new Map(readdirSync(path).map((name) => [name, (statSync(join(path, name)).mode & 0o777).toString(8)]))
  }
  const OWN = { "board.db": "600", "board.db-shm": "600", "board.db-wal": "600", "board.db-bells": "700" }

  test.each([0o000, 0o022])("its folder is for its owner alone, with all that is in it (umask %i)", async (umask) => {
    const parent = join(folder.path, `owner-${umask}`)
    const path = join(parent, ".callboard")
    expect(Object.fromEntries(await rightsIn(path, umask))).toEqual({ ".gitignore": "600", ...OWN })
    expect(statSync(path).mode & 0o777).toBe(0o700)
    // The rights of the project's own folder follow the umask.
    expect(statSync(parent).mode & 0o777).toBe(0o777 & ~umask)
  })

  test.each([0o000, 0o022])("a file in any other folder is for its owner alone (umask %i)", async (umask) => {
    const path = join(folder.path, `elsewhere-${umask}`)
    mkdirSync(path)
    expect(Object.fromEntries(await rightsIn(path, umask))).toEqual(OWN)
  })

  test("a file that is there keeps its rights, and so do those beside it", async () => {
    const path = join(folder.path, "shared.db")
    writeFileSync(path, "")
    chmodSync(path, 0o660)
    await publish(await connect(`sqlite:${path}`), "a")
    for (const name of [path, `${path}-wal`, `${path}-shm`]) expect(statSync(name).mode & 0o777).toBe(0o660)
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

  test.each([
    [SCHEMA_VERSION + 1, /newer Callboard.*upgrade/],
    [SCHEMA_VERSION - 1, /cannot read: use another file/],
  ])("a file of version %i is refused with what to do", async (version, message) => {
    const path = freshFile()
    await (await connect(`sqlite:${path}`)).close()
    const handle = database(path)
    expect(handle.prepare("PRAGMA application_id").get()).toMatchObject({ application_id: APPLICATION_ID })
    expect(handle.prepare("PRAGMA user_version").get()).toMatchObject({ user_version: SCHEMA_VERSION })
    handle.exec(`PRAGMA user_version = ${version}`)
    const error = await errorOf(connect(`sqlite:${path}`))
    expect(error.reason).toBe("unsupported")
    expect(error.message).toMatch(message)
  })

  test("a file that another program keeps locked is refused in time", async () => {
    const path = freshFile()
    database(path).exec("PRAGMA locking_mode = EXCLUSIVE; CREATE TABLE t (a); BEGIN EXCLUSIVE")
    const start = performance.now()
    const error = await errorOf(connect(`sqlite:${path}`, { timeout: 300 }))
    expect(error.reason).toBe("unavailable")
    expect(error.message).toMatch(/lock: end that program/)
    expect(performance.now() - start).toBeLessThan(4_000)
  })

  test("several connections create one file at the same time", async () => {
    const path = freshFile()
    const all = await Promise.all(Array.from({ length: 6 }, () => connect(`sqlite:${path}`)))
    const [first, , , , , last] = all
    if (first === undefined || last === undefined) throw new Error("not connected")
    await publish(first, "one")
    expect((await find(last, "one"))?.task).toBeDefined()
  })

  test("sync=normal is declared as less than fsync", async () => {
    expect((await connect(`sqlite:${freshFile()}?sync=normal`)).capabilities.durability).toBe("process")
  })
})

describe("a lock that another program holds", () => {
  test("stops neither the event loop nor what can be read, and work is done once it is free", async () => {
    const path = freshFile()
    const driver = await connect(`sqlite:${path}`)
    await publish(driver, "before")
    const other = database(path)
    other.exec("BEGIN IMMEDIATE")
    let ticks = 0
    const ticking = setInterval(() => ticks++, 5)
    const published = publish(driver, "during")
    expect((await find(driver, "before"))?.task).toBeDefined()
    await eventually(() => ticks > 10, { message: "the event loop goes round" })
    clearInterval(ticking)
    other.exec("COMMIT")
    expect(await published).toEqual([{ status: "stored" }])
  })

  test("fails what waits for it too long, says so, and recovers", async () => {
    const path = freshFile()
    const driver = await connect(`sqlite:${path}`)
    const statuses: Array<string> = []
    driver.onStatus((status) => statuses.push(status))
    const other = database(path)
    other.exec("BEGIN IMMEDIATE")
    const start = performance.now()
    const [receipt] = await publish(driver, "a")
    expect(performance.now() - start).toBeLessThan(2_500)
    expect(receipt).toMatchObject({ status: "failed", error: { reason: "unavailable", outcome: "none" } })
    expect((await errorOf(driver.store.write([{ key: "a", value: null }]))).retryable).toBe(true)
    other.exec("COMMIT")
    expect(await publish(driver, "a")).toEqual([{ status: "stored" }])
    await eventually(() => statuses.length === 2, { message: "both changes are told" })
    expect(statuses).toEqual(["disconnected", "connected"])
  })
})

describe("a connection that the application holds", () => {
  test("is used and stays open", async () => {
    const handle = database(freshFile())
    handle.exec("CREATE TABLE theirs (a); PRAGMA user_version = 7; PRAGMA journal_mode = WAL")
    const driver = await adopt(handle)
    expect(driver.capabilities).toMatchObject({ durability: "fsync", reach: "host" })
    await publish(driver, "a")
    await driver.close()
    expect(handle.isOpen).toBe(true)
    expect(handle.prepare("PRAGMA user_version").get()).toMatchObject({ user_version: 7 })
    expect(handle.prepare("SELECT count(*) AS n FROM callboard_job").get()).toMatchObject({ n: 1 })
  })

  test("may be in memory, and says what that is worth", async () => {
    const driver = await adopt(database(":memory:"))
    expect(driver.capabilities).toMatchObject({ durability: "none", reach: "process" })
    await publish(driver, "a")
    expect((await takeOne(driver)).first).toBe(true)
  })

  test("may be inside a transaction of the application, which is waited for", async () => {
    const handle = database(freshFile())
    const driver = await adopt(handle)
    handle.exec("CREATE TABLE theirs (a); BEGIN; INSERT INTO theirs VALUES (1)")
    const published = publish(driver, "a")
    await new Promise((resolve) => setTimeout(resolve, 50))
    handle.exec("ROLLBACK")
    expect(await published).toEqual([{ status: "stored" }])
    expect(handle.prepare("SELECT count(*) AS n FROM theirs").get()).toMatchObject({ n: 0 })
  })

  test("may have other defaults and its own patience", async () => {
    const path = freshFile()
    const handle = new DatabaseSync(path, { readBigInts: true, timeout: 3_000 })
    opened.push({ close: () => handle.close() })
    const driver = await adopt(handle)
    const other = database(path)
    other.exec("BEGIN IMMEDIATE")
    const start = performance.now()
    const published = publish(driver, "a")
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
  const end = async (driver: Driver, id: string): Promise<void> => {
    await publish(driver, id)
    const commit = outcome(await takeOne(driver))
    if (commit.record === undefined) throw new Error("no record")
    const record = { ...commit.record, keep: 1_000 }
    expect(await driver.commit([{ ...commit, record }])).toMatchObject([{ status: "committed" }])
  }

  test("is gone before maintenance has come by, with the keys of its tasks", async () => {
    const driver = await connect(`sqlite:${freshFile()}`)
    await end(driver, "a")
    const now = Date.now()
    expect((await find(driver, "a"))?.record).toBeDefined()
    expect(await publish(driver, "a")).toEqual([{ status: "duplicate" }])
    vi.useFakeTimers({ toFake: ["Date"], now: now + 2_000 })
    expect(await find(driver, "a")).toBeUndefined()
    expect(await driver.query?.({ limit: 10 })).toMatchObject({ jobs: [] })
    expect(await publish(driver, "a")).toEqual([{ status: "stored" }])
  })

  test("is removed by maintenance; what waits never is", { timeout: 120_000 }, async () => {
    const path = freshFile()
    const driver = await connect(`sqlite:${path}`)
    for (let each = 0; each < 5; each++) await end(driver, `ended-${each}`)
    await driver.publish([posted({ id: "waits", queue: "other", expires: Date.now() + 1_000 })])
    const [waits] = await take(driver, { queue: "other" })
    if (waits === undefined) throw new Error("no task came")
    const { record, task } = outcome(waits, "queued")
    const release = { kind: "hand-back", token: task?.kind === "ack" ? task.token : "", delay: 0 } as const
    await driver.commit([{ id: "waits", task: release, ...(record ? { record: { ...record, keep: 0 } } : {}) }])
    const handle = database(path)
    const rows = () => handle.prepare("SELECT count(*) AS n FROM callboard_job").get()?.["n"]
    expect(rows()).toBe(6)
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 2_000 })
    await eventually(() => rows() === 1, { message: "only what waits is left" })
    expect(await find(driver, "waits")).toMatchObject({ record: expect.anything(), task: expect.anything() })
  })
})

describe("reading what is in the file", () => {
  test("ids of every form come back as they were", async () => {
    const driver = await connect(`sqlite:${freshFile()}`)
    const uuid = crypto.randomUUID()
    const ids = [uuid, uuid.toUpperCase(), uuid.replaceAll("-", ""), "a/1/0", "ü€😀", "zero\0byte", "x".repeat(255)]
    const receipts = await publish(driver, ...ids)
    expect(receipts.every(({ status }) => status === "stored")).toBe(true)
    expect(await driver.waiting?.({ queue: "q" }, 100)).toEqual(ids)
    const page = await driver.query?.({ limit: 100 })
    expect(page?.jobs.map(({ id }) => id).sort()).toEqual([...ids].sort())
  })

  test("rare jobs are found among many, page by page, in every order of filters", async () => {
    const driver = await connect(`sqlite:${freshFile()}`)
    const count = 3_000
    const postings = Array.from({ length: count }, (_, at) =>
      posted({
        id: `job-${at}`,
        queue: at % 3 === 0 ? "third" : "q",
        task: at % 500 === 0 ? "rare" : "usual",
        ...(at % 250 === 0 ? { headers: { root_id: "job-0", parent_id: "job-1", group: "g" } } : {}),
      }),
    )
    await driver.publish(postings)
    const deliveries = await take(driver, { queue: "third", max: 1_000 })
    await driver.commit(
      deliveries.map((delivery, at) => {
        const dead = at % 200 === 0 ? { dead: "lost" } : {}
        return outcome(delivery, at % 100 === 0 ? "failed" : "succeeded", dead)
      }),
    )
    const all = async (query: Partial<Query>): Promise<ReadonlyArray<string>> => {
      const ids: Array<string> = []
      let after: string | undefined
      do {
        const page = await driver.query?.({ limit: 4, ...query, ...(after === undefined ? {} : { after }) })
        ids.push(...(page?.jobs.map(({ id }) => id) ?? []))
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
    expect(await all({ root: "job-0" })).toEqual(newest(250))
    expect(await all({ parent: "job-1", queue: "third" })).toEqual(newest(750))
    expect(await all({ group: "g", states: ["succeeded"] })).toEqual(
      newest(750).filter((id) => (Number(id.slice(4)) / 3) % 100),
    )
    expect((await all({ states: ["succeeded"] })).length).toBe(990)
  })

  test("queues are counted as they are, however many tasks they hold", async () => {
    const driver = await connect(`sqlite:${freshFile()}`, { lease: 1_000 })
    const due = Date.now() + 60_000
    const ready = Array.from({ length: 900 }, (_, at) => posted({ id: `r-${at}`, queue: "q", priority: at % 10 }))
    const later = Array.from({ length: 300 }, (_, at) => posted({ id: `s-${at}`, queue: "q", due: due + (at % 7) }))
    await driver.publish([...ready, ...later, posted({ id: "other", queue: "b" })])
    await take(driver, { max: 100 })
    const depths = await driver.queues?.()
    expect(depths).toEqual([
      { queue: "b", ready: 1, scheduled: 0, held: 0, oldest: expect.any(Number) },
      { queue: "q", ready: 800, scheduled: 300, held: 100, oldest: expect.any(Number) },
    ])
    // A task whose lease has ended counts as ready, even if no take has made it ready yet.
    await new Promise((resolve) => setTimeout(resolve, 1_050))
    expect((await driver.queues?.())?.[1]).toMatchObject({ ready: 900, scheduled: 300, held: 0 })
  })
})

describe("one transaction for what is asked in one turn", () => {
  // Repeated, because on a busy machine a transaction may exceed its time and be split.
  test("publishes, a pull and store writes share a commit; one that is refused fails alone", { retry: 5 }, async () => {
    const path = freshFile()
    const driver = await connect(`sqlite:${path}`)
    const commits = async (): Promise<number> => {
      const before = database(path).prepare("SELECT last FROM callboard_counter").get()?.["last"]
      return Number(before)
    }
    const before = await commits()
    const [receipts, deliveries, written, refused] = await Promise.all([
      Promise.all(Array.from({ length: 20 }, (_, at) => publish(driver, `t-${at}`))),
      take(driver, { max: 50 }),
      driver.store.write([{ key: "k", value: Uint8Array.of(1) }]),
      driver.publish([{ ...posted({ id: "bad", queue: "q" }), level: 99 }]),
    ])
    expect(receipts.flat().every(({ status }) => status === "stored")).toBe(true)
    // The take does not wait, and still gets the tasks, because it was served at the end of the same transaction.
    expect(deliveries).toHaveLength(20)
    expect(written).toEqual([expect.any(String)])
    expect(refused[0]).toMatchObject({ status: "failed", error: { reason: "invalid" } })
    // 20 rows, one fence, one revision.
    expect((await commits()) - before).toBe(22)
  })

  test("what the database itself refuses fails alone, and its neighbours are stored", async () => {
    const handle = database(freshFile())
    const driver = await adopt(handle)
    handle.exec(
      `CREATE TRIGGER poison BEFORE INSERT ON callboard_job WHEN NEW.task = 'poison'
       BEGIN SELECT RAISE(ABORT, 'refused for the test'); END`,
    )
    const tasks = Array.from({ length: 9 }, (_, at) =>
      posted({ id: `t-${at}`, queue: "q", task: at === 4 ? "poison" : "fine" }),
    )
    const [together, alone] = await Promise.all([driver.publish(tasks), publish(driver, "other")])
    expect(together.map(({ status }) => status)).toEqual(tasks.map((_, at) => (at === 4 ? "failed" : "stored")))
    expect(together[4]).toMatchObject({ error: { reason: "internal", message: expect.stringMatching(/for the test/) } })
    expect(alone).toEqual([{ status: "stored" }])
  })

  test("a full disk is told as such, takes nothing back, and is got over", async () => {
    const handle = database(freshFile())
    const driver = await adopt(handle)
    const pages = Number(Object.values(handle.prepare("PRAGMA page_count").get() ?? {})[0])
    handle.exec(`PRAGMA max_page_count = ${pages + 8}`)
    const statuses: Array<string> = []
    const body = new Uint8Array(10_000)
    for (let each = 0; each < 20; each++) {
      const [receipt] = await driver.publish([posted({ id: `t-${each}`, queue: "q", body })])
      statuses.push(receipt?.status ?? "")
      if (receipt?.status !== "failed") continue
      expect(receipt.error).toMatchObject({ reason: "unavailable", message: expect.stringMatching(/disk is full/) })
      break
    }
    expect(statuses.at(-1)).toBe("failed")
    handle.exec("PRAGMA max_page_count = 100000")
    const [again] = await driver.publish([posted({ id: `t-${statuses.length - 1}`, queue: "q", body })])
    expect(again).toEqual({ status: "stored" })
    expect(await driver.waiting?.({ queue: "q" }, 100)).toEqual(statuses.map((_, at) => `t-${at}`))
  })
})
