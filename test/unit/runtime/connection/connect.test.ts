/** Connecting by URL: which plugin is chosen, which options it gets, and that no secret is shown. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { actor, connect, serve } from "callboard"
import type { ConnectOptions } from "callboard/transport"
import { describe, expect, test } from "vitest"
import { Client } from "../../../../runtime/client/client.ts"
import {
  connectTransport,
  displayUrl,
  leaseOf,
  openConnection,
  parseUrl,
} from "../../../../runtime/connection/connect.ts"
import { generateId } from "../../../../runtime/id.ts"
import type { Plugin } from "../../../../runtime/transport/driver.ts"
import type { LiftedPlugin } from "../../../../runtime/transport/job-store/plugin.ts"
import type { Transport } from "../../../../runtime/transport/job-store/transport.ts"
import { LeastBoard, leastDriver } from "../../../kit/driver/least-driver.ts"
import { wholeDriver } from "../../../kit/driver/whole-driver.ts"
import { memory } from "../../../support/memory.ts"
import { removeAtEnd } from "../../../support/servers/process.ts"

/** A plugin that notes the URLs and options of its connections, and how often they were closed. */
const spy = (change: (transport: Transport) => Transport = (same) => same) => {
  const asked: Array<ConnectOptions> = []
  let closed = 0
  const make = async (options: ConnectOptions): Promise<Transport> => {
    asked.push(options)
    const inner = await memory.connect(new URL(`memory://${generateId()}`), options)
    return change({
      ...inner,
      close: () => {
        closed++
        return inner.close()
      },
    })
  }
  const plugin: LiftedPlugin = {
    schemes: ["spy"],
    connect: (_url, options) => make(options),
    adopt: (client, options) => (client instanceof Held ? make(options) : undefined),
  }
  return { transports: { spy: plugin }, asked, closed: () => closed }
}
class Held {}

describe("what is shown of a URL", () => {
  test.each([
    ["nats://host:4222/x", "nats://host:4222/x"],
    ["nats://user:secret@host:4222", "nats://host:4222"],
    ["nats://user:se@cret@host", "nats://host"],
    ["nats://user:se/cret@host", "nats://host"],
    ["nats://user:12/cret@host", "nats://host"],
    ["nats://user:se?cret@host", "nats://host"],
    ["nats://user:se#cret@host", "nats://host"],
    ["nats://secret@host?token=secret&x=a@b#secret", "nats://host"],
    ["nats://a:secret@one:1,nats://b:secret@two", "nats://two"],
    ["nats://a:secret@one:1,b:secret@two:2", "nats://two:2"],
    ["sqlite:/home/me@work/jobs.db?secret=1", "sqlite:/home/me@work/jobs.db"],
    ["sqlite:///home/me@work/jobs.db", "sqlite:///home/me@work/jobs.db"],
    ["sqlite:jobs.db", "sqlite:jobs.db"],
    ["secret@host", "(not a URL)"],
    ["user:secret@host", "user:(hidden)"],
    ["nats:user:secret@host", "nats:(hidden)"],
    ["one:4222,user:secret@two:4222", "one:(hidden)"],
  ])("%s is shown as %s", (url, shown) => {
    expect(displayUrl(url)).toBe(shown)
  })

  test("the error of a URL that cannot be read holds no secret", async () => {
    const failed = await connectTransport("nats://user:sec/ret@host").catch((cause: unknown) => String(cause))
    expect(failed).toContain("is not a transport URL")
    expect(failed).not.toMatch(/sec|ret@/)
  })
})

test.each([
  ["50%off", "user:50%off@", "password"],
  ["50%off", "50%off:secret@", "user"],
])("a %% that is not encoded in user or password is refused by name, without %s", async (secret, credentials, what) => {
  for (const scheme of ["nats", "amqp", "redis", "postgres"]) {
    const connecting = connectTransport(`${scheme}://${credentials}127.0.0.1:1/`, { timeoutMs: 100 })
    const failed = await connecting.catch((cause: unknown) => cause)
    const message = `${scheme}://127.0.0.1:1/: the ${what} is not percent-encoded: write % as %25`
    expect(failed).toMatchObject({ reason: "invalid", message })
    expect(String(failed)).not.toContain(secret)
  }
})

describe("options", () => {
  test("of the settings win over those of the URL, and those over the defaults", async () => {
    const { transports, asked } = spy()
    await connectTransport("spy:", { transports })
    await connectTransport("spy:?ns=url&lease=5", { transports })
    await connectTransport("spy:?ns=url&lease=5", { transports, namespace: "own", leaseMs: 2_000, timeoutMs: 9 })
    expect(asked).toMatchObject([
      { namespace: "callboard", lease: 30_000, timeout: 5_000 },
      { namespace: "url", lease: 5_000 },
      { namespace: "own", lease: 2_000, timeout: 9 },
    ])
  })

  test.each([
    "spy:?lease=0.5",
    "spy:?lease=500ms",
    "spy:?lease=soon",
    "spy:?lease=0x10",
    "spy:?lease=1e1",
    "spy:?lease=",
    "spy:?lease=-1",
    "spy:?lease=90000",
    "spy:?ns=a.b",
    "spy:?ns=",
    "spy:?ns=a&ns=b",
    "spy:?lease=5&lease=60",
  ])("%s is refused", async (url) => {
    const { transports, asked } = spy()
    await expect(connectTransport(url, { transports })).rejects.toMatchObject({ reason: "invalid" })
    expect(asked).toEqual([])
  })

  test("durations of a URL are written as everywhere", async () => {
    const { transports, asked } = spy()
    for (const lease of ["20", "20s", "0.5 minutes"]) await connectTransport(`spy:?lease=${lease}`, { transports })
    expect(asked).toMatchObject([{ lease: 20_000 }, { lease: 20_000 }, { lease: 30_000 }])
    expect(leaseOf(new Held(), {})).toBe(30_000)
  })
})

describe("the plugin", () => {
  test("is refused, by its scheme, where it is none", async () => {
    for (const text of ["{}", "5", "null", '{"schemes": ["own"]}'])
      await expect(connectTransport("own:", { transports: { own: JSON.parse(text) } })).rejects.toMatchObject({
        reason: "invalid",
        message: expect.stringMatching(/^transports\.own: must be/),
      })
  })

  test("may connect to a driver, of which the rest is made", async () => {
    const board = new LeastBoard()
    const plugin: Plugin = {
      schemes: ["least"],
      connect: async (_, options) => wholeDriver(board, options),
      adopt: (client, options) => (client instanceof Held ? Promise.resolve(wholeDriver(board, options)) : undefined),
    }
    const transports = { least: plugin }
    for (const target of ["least:", new Held()]) {
      const { jobs } = await openConnection(target, { transports })
      expect(await jobs.find("nobody")).toBeUndefined()
      expect(await jobs.take({ queues: ["q"], max: 1, wait: 0 }, new AbortController().signal)).toEqual([])
    }
  })

  test.each(["constructor:x", "tostring:x", "hasownproperty:x"])(
    "of %s is not found in what every object has",
    async (url) => {
      await expect(connectTransport(url, { transports: {} })).rejects.toMatchObject({ reason: "unsupported" })
    },
  )

  test("of an unknown scheme is asked for by the names that would provide it", async () => {
    await expect(connectTransport("gopher://host")).rejects.toThrow(/transports\.gopher.*callboard-transport-gopher/)
  })

  test("whose package is installed and does not load says why", async () => {
    const name = `callboard-transport-broken${process.pid}`
    const place = fileURLToPath(new URL(`../../../../node_modules/${name}`, import.meta.url))
    removeAtEnd(place)
    mkdirSync(place)
    try {
      writeFileSync(`${place}/package.json`, JSON.stringify({ name, type: "module", exports: "./main.js" }))
      writeFileSync(`${place}/main.js`, 'throw new Error("no native part")\n')
      await expect(connectTransport(`broken${process.pid}://host`)).rejects.toMatchObject({
        reason: "unsupported",
        message: `broken${process.pid}: the package ${name} cannot be loaded: no native part`,
      })
    } finally {
      rmSync(place, { recursive: true })
    }
  })

  test("that knows a client object adopts it", async () => {
    const { transports, asked } = spy()
    await connectTransport(new Held(), { transports, namespace: "own" })
    expect(asked).toMatchObject([{ namespace: "own" }])
    await expect(connectTransport({}, { transports })).rejects.toMatchObject({ reason: "unsupported" })
  })
})

describe("what was connected is closed", () => {
  test("with the client, which leaves one that it was given alone", async () => {
    const { transports, closed } = spy()
    {
      await using client = await connect("spy:", { transports })
      await using _other = new Client(client.connection)
    }
    expect(closed()).toBe(1)
  })
})

describe("a URL with several hosts", () => {
  test.each([
    ["nats://a:1,b:2", "a:1", "b:2"],
    ["nats://u:p@a,b,c:3?ns=x", "a", "b,c:3"],
  ])("%s keeps its first host, and names the others as servers", (text, first, servers) => {
    const url = parseUrl(text)
    expect(url?.searchParams.get("servers")).toBe(servers)
    expect(url?.host).toBe(first)
  })

  test("is told from one with a single host, and from what is no URL", () => {
    expect(parseUrl("sqlite:a,b.db")?.href).toBe("sqlite:a,b.db")
    expect(parseUrl("nats://a?x=1,2")?.searchParams.get("x")).toBe("1,2")
    expect(parseUrl("just text")).toBeUndefined()
  })
})

test("a transport without broadcast runs jobs, and cancels those of its own process", async () => {
  const board = new LeastBoard()
  const least: Plugin = { schemes: ["least"], connect: async (_url, options) => leastDriver(board, options) }
  let began = () => {}
  const running = new Promise<void>((resolve) => {
    began = resolve
  })
  const sleeper = actor("sleeper", {
    methods: {
      add: ({ a, b }: { a: number; b: number }) => a + b,
      sleep: (_input: unknown, job) =>
        new Promise((_, reject) => {
          job.signal.addEventListener("abort", () => reject(job.signal.reason))
          began()
        }),
    },
  })
  const options = { transports: { least }, actors: [sleeper], signals: false as const, logLevel: "none" as const }
  await using service = await serve({ transport: "least://here", ...options })
  expect(await (await service.client.submit("sleeper.add", { input: { a: 1, b: 2 } })).result({ timeout: 20 })).toBe(3)
  const job = await service.client.submit("sleeper.sleep")
  await running
  await job.cancel()
  expect(await job.outcome({ timeout: 20 })).toMatchObject({ state: "cancelled" })
})
