/** Acceptance scenarios of job boards, D: waiting, notifications, life cycle, entities, configuration, namespaces. */
import { fileURLToPath } from "node:url"
import { type BoardListener, boardConfiguration, connect, fetchBoard } from "callboard"
import { describe, expect, onTestFinished, test } from "vitest"
import { builtin } from "../../runtime/connection/builtin.ts"
import { asTransport, type LiftedPlugin } from "../../runtime/transport/job-store/plugin.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import { fastest } from "../support/fastest.ts"
import { bundled } from "../support/servers/bundle.ts"
import { eventually, spawnScript } from "../support/servers/process.ts"
import { all, BOARD, begin, namesOf, refusal } from "./board-scene.ts"
import { onEveryBoard, type ScenarioTransport } from "./boards.ts"
import { mortal } from "./mortal.ts"

/** How long a call takes, in milliseconds, also one that fails. */
const took = async (call: () => Promise<unknown>): Promise<number> => {
  const start = performance.now()
  await call().catch(() => undefined)
  return performance.now() - start
}

/** The transport with writes of the store that fail on command. */
const failing = (scheme: ScenarioTransport) => {
  const state = { fails: false }
  const plugin: LiftedPlugin = {
    schemes: [scheme],
    connect: async (url, options) => {
      const inner = await asTransport(await (await builtin[scheme]()).connect(url, options), options)
      const { store } = inner
      const write: typeof store.write = (operations) => {
        if (state.fails) throw new TransportError("unavailable", "the cable is cut")
        return store.write(operations)
      }
      const { watch } = store
      return {
        ...inner,
        store: {
          get: (keys) => store.get(keys),
          list: (range) => store.list(range),
          now: () => store.now(),
          ...(watch === undefined ? {} : { watch: (...given) => watch.apply(store, given) }),
          write,
        },
      }
    },
  }
  return { state, transports: { [scheme]: plugin } }
}

onEveryBoard((newBoard, transport) => {
  describe("failures", () => {
    test("S015 a failed post leaves nothing", async () => {
      const { state, transports } = failing(transport)
      const client = await connect(newBoard(), { transports })
      onTestFinished(() => client.close())
      const board = client.board(BOARD)
      const kept = await board.post("kept")
      state.fails = true
      for (const priority of ["NORMAL", "HIGH"]) {
        await expect(board.post("a", { priority })).rejects.toMatchObject({
          ...refusal("transport-unavailable"),
          cause: { _tag: "TransportError", message: "the cable is cut" },
        })
      }
      state.fails = false
      expect(await board.count()).toBe(1)
      expect((await all(board.iterate())).map(({ id }) => id)).toEqual([kept.id])
      await board.post("b", { priority: "HIGH" })
      expect(await namesOf(board.iterate())).toEqual(["b", "kept"])
    })

    test("a job that is too large is refused by its size, with nothing half made", async () => {
      const { board, client } = await begin(newBoard())
      const { maxRecord } = client.connection.transport.capabilities
      const before = await client.connection.store.list({ prefix: "board/", limit: 10 })
      const bytes = Math.min(maxRecord, 64 * 1024 * 1024)
      await expect(board.post("a", { details: { text: "x".repeat(bytes) } })).rejects.toMatchObject({
        ...refusal("too-large"),
        details: { field: "details" },
      })
      expect(await client.connection.store.list({ prefix: "board/", limit: 10 })).toEqual(before)
      if (transport === "nats") {
        await expect(board.post("a", { details: { text: "x".repeat(2 * 1024 * 1024) } })).rejects.toMatchObject(
          refusal("too-large"),
        )
        // A job is refused as well if its entry would have no room for its claims.
        await expect(board.post("a", { details: { text: "x".repeat(maxRecord - 8_000) } })).rejects.toMatchObject(
          refusal("too-large"),
        )
        // An accepted job has room for its claims, also with the longest names of owners.
        const job = await board.post("b", { details: { text: "x".repeat(maxRecord - 16_000) } })
        for (let at = 0; at < 25; at++) await (await board.claim(job, '"'.repeat(255))).abandon()
        expect(await board.count()).toBe(1)
      }
    })

    test.each([
      ["name", () => ({ name: "", options: {} })],
      ["details", () => ({ name: "a", options: { details: [] } })],
      ["details", () => ({ name: "a", options: { details: { n: 1n } } })],
      ["details", () => ({ name: "a", options: { details: { steps: [{ run: () => undefined }] } } })],
      ["book.uuid", () => ({ name: "a", options: { book: { name: "b" } } })],
      ["ttl", () => ({ name: "a", options: { ttl: 1 } })],
    ])("a posting with a bad %s is refused by that name", async (field, given) => {
      const { board } = await begin(newBoard())
      const { name, options } = given()
      const code = field === "ttl" ? "unknown-field" : "invalid-input"
      await expect(board.post(name, options as object)).rejects.toMatchObject({ ...refusal(code), details: { field } })
      expect(await board.count()).toBe(0)
    })
  })

  describe("waiting", () => {
    test("S047 wait times out", async () => {
      const { board } = await begin(newBoard())
      const [, ms] = await fastest(600, () => board.wait(0.2).catch(() => undefined))
      await expect(board.wait(0.2)).rejects.toMatchObject({
        ...refusal("not-found"),
        message: expect.stringContaining("waited 0.2 s"),
      })
      expect(ms).toBeGreaterThanOrEqual(199)
      expect(ms).toBeLessThan(600)
      await board.post("a")
      expect(await namesOf(await board.wait(0))).toEqual(["a"])
    })

    test("S048 wait is woken", async () => {
      const { board, other } = await begin(newBoard())
      const second = await other()
      const waiting = board.wait()
      setTimeout(() => void second.post("a"), 200)
      const ms = await took(() => waiting)
      expect(ms).toBeLessThan(1_500)
      expect(await namesOf(await waiting)).toEqual(["a"])
    })

    test("S048 a claim that waits for a job is woken, and ends when its signal fires", async () => {
      const { board, other } = await begin(newBoard())
      const second = await other()
      const waiting = board.take("me", { wait: "1 minute" })
      setTimeout(() => void second.post("a"), 200)
      expect((await waiting).job.name).toBe("a")
      const stop = new AbortController()
      const given = board.take("me", { wait: "1 minute", signal: stop.signal })
      setTimeout(() => stop.abort(), 100)
      expect(await took(() => given)).toBeLessThan(1_500)
      await expect(given).rejects.toMatchObject(refusal("not-found"))
    })

    test("S050 job.wait", async () => {
      const { board, other } = await begin(newBoard())
      const job = await board.post("a")
      const second = await other()
      const [, ms] = await fastest(400, () => job.wait({ timeout: 0.1 }))
      expect(ms).toBeGreaterThanOrEqual(99)
      expect(ms).toBeLessThan(400)
      expect(await job.wait({ timeout: 0 })).toBe(false)
      const blocked = job.wait()
      const claim = await second.claim(job.id, "me")
      await claim.consume()
      expect(await took(() => blocked)).toBeLessThan(1_500)
      expect(await blocked).toBe(true)
      expect(await job.wait({ timeout: 0 })).toBe(true)
    })

    test("S052 job.wait arguments", async () => {
      const { board } = await begin(newBoard())
      const job = await board.post("a")
      for (const [field, options] of Object.entries({
        delay: { delay: -1 },
        maxDelay: { maxDelay: -1 },
        multiplier: { multiplier: 0.5 },
      })) {
        await expect(job.wait(options)).rejects.toMatchObject({ ...refusal("invalid-input"), details: { field } })
      }
    })
  })

  describe("notifications", () => {
    test("S053 notifications", async () => {
      const { board, other } = await begin(newBoard())
      const second = await other()
      const told: Array<string> = []
      const listen =
        (name: string): BoardListener =>
        (event) =>
          told.push(`${name} ${event.event} ${"id" in event ? event.id : ""}`)
      await board.on("*", listen("A"))
      await second.on("*", listen("B"))
      const job = await board.post("a")
      const claim = await second.claim(job.id, "me")
      await claim.abandon()
      await (await second.claim(job.id, "me")).consume()
      await eventually(() => told.length >= 4, { deadline: 20_000, message: "both are told" })
      for (const name of ["A", "B"]) {
        const own = told.filter((each) => each.startsWith(name))
        expect(own).toEqual([`${name} POSTED ${job.id}`, `${name} REMOVAL ${job.id}`])
      }
    })

    test("S053 what is posted and consumed at once is told to each board, once and in order", async () => {
      const { board, other } = await begin(newBoard())
      const second = await other()
      const told: Array<[string, string, string]> = []
      for (const [name, each] of Object.entries({ A: board, B: second }))
        await each.on("*", (event) => told.push([name, "id" in event ? event.id : "", event.event]))
      const jobs = await Promise.all(
        Array.from({ length: 40 }, async (_, at) => {
          const job = await (at % 2 === 0 ? board : second).post(`${at}`)
          const claim = await (at % 3 === 0 ? board : second).claim(job.id, "me")
          await claim.consume()
          return job.id
        }),
      )
      await eventually(() => told.length >= 160, { deadline: 20_000, message: "all is told" })
      for (const name of ["A", "B"])
        for (const id of jobs)
          expect(told.filter(([to, about]) => to === name && about === id).map(([, , event]) => event)).toEqual([
            "POSTED",
            "REMOVAL",
          ])
      expect(told).toHaveLength(160)
    })

    test("S055 listener faults", async () => {
      const { board } = await begin(newBoard())
      const told: Array<string> = []
      await board.on("POSTED", () => {
        throw new Error("a listener that fails")
      })
      await board.on("POSTED", async () => Promise.reject(new Error("later")))
      await board.on("POSTED", ({ event }) => told.push(`second ${event}`))
      const stop = await board.on("*", ({ event }) => told.push(`* ${event}`))
      const job = await board.post("a")
      await (await board.claim(job, "me")).consume()
      await eventually(() => told.length >= 3, { message: "they are told" })
      expect(told.toSorted()).toEqual(["* POSTED", "* REMOVAL", "second POSTED"])
      stop()
      await board.post("b")
      await eventually(() => told.length >= 4, { message: "it is told" })
      expect(told.at(-1)).toBe("second POSTED")
      await expect(board.on("removed" as "POSTED", () => undefined)).rejects.toMatchObject(refusal("invalid-input"))
    })
  })

  describe("life cycle", () => {
    test("S057 life cycle", async () => {
      const url = newBoard()
      // Keeps a board in memory while the other one is closed.
      await begin(url)
      const board = fetchBoard(BOARD, url)
      onTestFinished(() => board.close())
      const calls = (id: string): ReadonlyArray<() => Promise<unknown>> => [
        () => board.post("a"),
        () => board.iterate().next(),
        () => board.claim(id, "me"),
        () => board.take("me"),
        () => board.count(),
        () => board.wait(0),
        () => board.on("*", () => undefined),
      ]
      expect(board.connected).toBe(false)
      for (const call of calls("x")) await expect(call()).rejects.toMatchObject(refusal("not-connected"))
      await board.connect()
      await board.connect()
      expect(board.connected).toBe(true)
      const job = await board.post("a")
      await board.close()
      expect(board.connected).toBe(false)
      for (const call of [...calls(job.id), () => job.state()])
        await expect(call()).rejects.toMatchObject(refusal("not-connected"))
      await board.connect()
      expect(await namesOf(board.iterate())).toEqual(["a"])
      expect(await job.state()).toBe("UNCLAIMED")
      const waiting = board.wait()
      const taking = board.take("me", { wait: 60 })
      await taking
      await waiting
      const blocked = board.take("me", { wait: 60 })
      setTimeout(() => void board.close(), 100)
      await expect(blocked).rejects.toMatchObject(refusal("not-connected"))
    })

    test("S057 a board of a client is connected until the client is closed", async () => {
      const { client, board } = await begin(newBoard())
      expect(board.connected).toBe(true)
      await client.close()
      expect(board.connected).toBe(false)
      await expect(board.post("a")).rejects.toMatchObject(refusal("not-connected"))
      const later = client.board(BOARD)
      expect(later.connected).toBe(false)
      await expect(later.count()).rejects.toMatchObject(refusal("not-connected"))
      for (const each of [board, later]) {
        await expect(each.connect()).rejects.toMatchObject(refusal("not-connected"))
        expect(each.connected).toBe(false)
      }
    })

    test("S059 an entity is refused whose metadata JSON cannot hold, by that name", async () => {
      const { board } = await begin(newBoard())
      for (const metadata of [{ pid: 1n }, { stop: () => undefined }]) {
        const registered = board.registerEntity({ kind: "conductor", name: "c@h:1", metadata })
        await expect(registered).rejects.toMatchObject({ ...refusal("invalid-input"), details: { field: "metadata" } })
      }
      expect(await board.entities()).toEqual([])
    })

    test("S059 registered entities", async () => {
      const url = newBoard()
      const { board } = await begin(url, { lease: 2 })
      const entity = { kind: "conductor", name: "c@h:1" }
      let end: () => Promise<unknown>
      if (transport === "memory") {
        const { transports, die } = mortal()
        const gone = await connect(url.replace("memory:", "mortal:"), { transports })
        onTestFinished(() => gone.close().catch(() => undefined))
        const theirs = gone.board(BOARD, { lease: 2 })
        await theirs.registerEntity({ ...entity, metadata: { pid: 1 } })
        await theirs.registerEntity({ ...entity, metadata: { pid: 1 } })
        end = async () => die()
      } else {
        await board.post("a")
        const program = bundled(fileURLToPath(new URL("board-owner.ts", import.meta.url)))
        const child = spawnScript(program, [url, BOARD, "2", "60"])
        onTestFinished(() => child[Symbol.asyncDispose]())
        await child.waitForLine(/^claimed/)
        end = () => {
          child.kill("SIGKILL")
          return child.closed
        }
      }
      expect(await board.entities()).toMatchObject([{ ...entity, metadata: { pid: expect.any(Number) } }])
      expect(await board.entities("worker")).toEqual([])
      await new Promise((resolve) => setTimeout(resolve, 3_000))
      // The entity is renewed while its process lives.
      expect(await board.entities("conductor")).toHaveLength(1)
      await end()
      await eventually(async () => (await board.entities()).length === 0, { deadline: 4_000, message: "it disappears" })
      await board.registerEntity({ kind: "a/b", name: "ü" })
      expect(await board.entities()).toEqual([{ kind: "a/b", name: "ü", metadata: {} }])
    })

    test("S060 configuration by URI, and job board plugins by name", async () => {
      expect(boardConfiguration("redis://u:p@h:7000/?ns=a&ns=b", { port: 5, x: 1 })).toEqual({
        driver: "redis",
        username: "u",
        password: "p",
        host: "h",
        port: 5,
        ns: "b",
        x: 1,
      })
      expect(boardConfiguration({ board: "redis://h", port: 5 })).toEqual({ driver: "redis", host: "h", port: 5 })
      const made: Array<unknown> = []
      const boards = { own: (name: string, configuration: object) => made.push([name, configuration]) }
      expect(fetchBoard(BOARD, "own://h?x=1", { boards })).toBe(1)
      expect(made).toEqual([[BOARD, { driver: "own", host: "h", x: "1" }]])
      expect(() => fetchBoard(BOARD, "etcd://h", { boards })).toThrow(/no job board plugin is called "etcd" .*own/)
      expect(() => fetchBoard("a/b", "memory://x")).toThrow(/board: a name must be/)
      for (const board of [5, ""])
        expect(() => fetchBoard(BOARD, JSON.parse(JSON.stringify({ board })))).toThrow(
          /^board: must be a URI, or the name/,
        )
      const url = newBoard()
      const { board } = await begin(url)
      await board.post("a")
      // The options repeat everything that the URL says.
      const { driver, ...options } = boardConfiguration(url)
      const source = transport === "sqlite" ? url : { board: driver, ...options }
      const fetched = fetchBoard(BOARD, source)
      onTestFinished(() => fetched.close())
      await fetched.connect()
      expect(await namesOf(fetched.iterate())).toEqual(["a"])
    })

    test("S062 namespaces", async () => {
      const url = newBoard()
      const { board, other } = await begin(url)
      const stranger = await other("tests")
      const elsewhere = url.includes("ns=") ? url.replace(/ns=[^&]*/, "ns=another") : `${url}&ns=another`
      const { board: apart } = await begin(elsewhere)
      const job = await board.post("a")
      await board.registerEntity({ kind: "conductor", name: "c" })
      const second = await board.post("b")
      await (await board.claim(second, "me")).trash()
      const told: Array<unknown> = []
      for (const each of [stranger, apart]) {
        await each.on("*", (event) => told.push(event))
        expect(await each.count()).toBe(0)
        expect(await all(each.iterate())).toEqual([])
        expect(await each.trashed()).toEqual([])
        expect(await each.entities()).toEqual([])
        await expect(each.claim(job.id, "me")).rejects.toMatchObject(refusal("not-found"))
        await expect(each.restore(second.id)).rejects.toMatchObject(refusal("not-found"))
      }
      await (await board.claim(job, "me")).consume()
      await stranger.post("own")
      await eventually(() => told.length > 0, { message: "its own posting is heard of" })
      expect(told).toMatchObject([{ event: "POSTED", name: "own" }])
      expect(await board.count()).toBe(0)
    })
  })
})
