/** Lists and counts make the server read as much on a board with many jobs as on a board with few. */
import { connect, type NatsConnection } from "nats"
import { afterAll, beforeAll, expect, test, vi } from "vitest"
import { NatsLink } from "../../../../plugins/nats/connection/link.ts"
import { plugin } from "../../../../plugins/nats/mod.ts"
import { FilteredScan, type ReverseScan, WholeScan } from "../../../../plugins/nats/records/scan.ts"
import { Names, SHARES } from "../../../../plugins/nats/streams/names.ts"
import { StreamReader } from "../../../../plugins/nats/streams/reader.ts"
import { generateId } from "../../../../runtime/id.ts"
import type { Driver } from "../../../../runtime/transport/driver.ts"
import { type NatsServer, startNats } from "../../../support/servers/nats.ts"
import { growing, QUERIES, readsOf } from "../bounded-lists.ts"

let server: NatsServer
let connection: NatsConnection
let link: NatsLink

beforeAll(async () => {
  server = await startNats()
  connection = await connect({ servers: server.url })
  link = new NatsLink({ connection, owned: true })
})

afterAll(async () => {
  await link?.close()
  await server?.stop()
})

const open = (namespace: string): Promise<Driver> =>
  plugin.connect(new URL(server.url), { namespace, lease: 30_000, name: "test", timeout: 5_000 })

const decoder = new TextDecoder()

/** Every request to read a stream, with how it was answered. */
const watchRequests = () => {
  const requests: Array<{
    readonly request: string
    readonly seq?: number
    readonly filter?: string
    readonly found: boolean
    readonly messages: number
  }> = []
  const send = NatsLink.prototype.requestMany
  const spy = vi.spyOn(NatsLink.prototype, "requestMany").mockImplementation(async function (this: NatsLink, ...args) {
    const answers = await send.apply(this, args)
    const [subject, payload] = args
    const found = answers[0]?.headers?.code !== 404
    const { seq, next_by_subj: filter } = /DIRECT\.GET\.[^.]+$/.test(subject) ? JSON.parse(decoder.decode(payload)) : {}
    const messages = answers.filter((message) => message.headers?.get("Nats-Sequence")).length
    requests.push({ request: subject, seq, filter, found, messages })
    return answers
  })
  return { requests, [Symbol.dispose]: () => spy.mockRestore() }
}

test("a list reads and asks as much with 20,000 jobs as with 1,000, and for nothing that is not there", async () => {
  const indexed = ["newest", "failed", "failed of a task", "failed of a queue", "failed by its cause"]
  const names = [...indexed, "the newest since", "waiting in a queue", "waiting of a task"]
  const wanted = Object.fromEntries(Object.entries(QUERIES).filter(([name]) => names.includes(name)))
  const asked: Record<string, Array<number>> = {}
  const walks: Array<string> = []
  const namespace = generateId()
  const counting = async (name: string): Promise<Driver> => {
    const driver = await open(`${namespace}-${name}`)
    const reader = new StreamReader(link, new Names(`${namespace}-${name}`).indexStream, false)
    const query: Driver["query"] = async (given) => {
      using watched = watchRequests()
      const page = await driver.query?.(given)
      const label = JSON.stringify(given)
      asked[label] = [...(asked[label] ?? []), watched.requests.length]
      // A filter that matches nothing above makes the server look through the stream from there to its end.
      const { last } = await reader.bounds()
      for (const { seq = 1, filter = ">", found, request } of watched.requests)
        if (!found && filter !== ">" && seq > 1 && seq < last - 5_000) walks.push(`${request} ${filter} from ${seq}`)
      return page ?? { jobs: [] }
    }
    return { ...driver, query }
  }
  const reads = await readsOf(counting, {
    ...wanted,
    "of a state in which none is": { states: ["expired"] },
    "dead ones": { dead: true },
  })
  const { "of a state in which none is": none, "dead ones": dead, ...others } = reads
  expect([none?.found, none?.scanned, dead?.found, dead?.scanned]).toEqual(Array(4).fill([0, 0]))
  expect(growing(others, 1_000)).toEqual([])
  expect(walks).toEqual([])
  for (const [query, [few = 0, many = 0]] of Object.entries(asked))
    expect(many, `${query} with few jobs: ${few} requests`).toBeLessThanOrEqual(2 * few + 10)
})

test("more than so many are counted by some of the shares of their ids, and few exactly", async () => {
  const namespace = generateId()
  const driver = await open(namespace)
  try {
    const index = { state: "failed", queue: "q", task: "a", at: 1_700_000_000_000 } as const
    const ids = Array.from({ length: 500 }, () => generateId())
    const bytes = new TextEncoder().encode("{}")
    await driver.commit(ids.map((id) => ({ id, record: { expect: "", bytes, index } })))
    expect(await driver.count?.("failed", undefined)).toBe(500)
    expect(await driver.count?.("failed", "q", 100)).toBe(500)
    const names = new Names(namespace)
    const reader = new StreamReader(link, names.indexStream, false)
    const shares = await Promise.all(
      Array.from({ length: SHARES }, (_, share) => reader.count(names.entriesIn(share, "failed"))),
    )
    expect(shares.reduce((sum, share) => sum + share, 0)).toBe(500)
    expect(Math.max(...shares)).toBeLessThan(50)
  } finally {
    await driver.close()
  }
})

test("a page whose budget is over has what was read by then, and the next one goes on behind it", async () => {
  const driver = await open(generateId())
  try {
    const index = { state: "failed", queue: "q", task: "a", at: 1_700_000_000_000 } as const
    const ids = Array.from({ length: 80 }, () => generateId())
    const bytes = new TextEncoder().encode("{}")
    await driver.commit(ids.map((id) => ({ id, record: { expect: "", bytes, index } })))
    const first = await driver.query?.({ states: ["failed"], limit: 50, budget: 0 })
    expect(first?.jobs).toHaveLength(50)
    const second = await driver.query?.({ states: ["failed"], limit: 50, budget: 0, after: first?.next ?? "" })
    const found = [...(first?.jobs ?? []), ...(second?.jobs ?? [])].map(({ id }) => id)
    expect(found.toSorted()).toEqual(ids.toSorted())
  } finally {
    await driver.close()
  }
})

/** Sequences in the order of a scan that begins anew, by its position, after each `every` messages. */
const drain = async (scanOf: (below: number) => ReverseScan, every: number): Promise<ReadonlyArray<number>> => {
  const found: Array<number> = []
  let below = Number.POSITIVE_INFINITY
  while (below > 0) {
    const scan = scanOf(below)
    for (let n = 0; n < every; n++) {
      const message = await scan.peek(() => false)
      if (message === undefined) break
      found.push(message.seq)
      scan.take()
    }
    below = scan.position
  }
  return found
}

test("a stream is read from its end, also where most was removed and where matches are rare", async () => {
  const stream = generateId()
  await link.api(`STREAM.CREATE.${stream}`, { name: stream, subjects: [`${stream}.>`], allow_direct: true })
  const LENGTH = 6_000
  const removed: Array<number> = []
  for (let seq = 1; seq <= LENGTH; seq++) {
    const isRare = seq % 997 === 0 || (seq > 400 && seq < 480)
    const [kind, share] = isRare ? ["rare", seq % 2] : seq % 3 === 0 ? ["often", seq % 2] : ["other", 0]
    link.send(`${stream}.${kind}.${share}.${seq}`, new Uint8Array(0))
    if (seq > 2_000 && seq < 5_000 && seq % 50 > 0) removed.push(seq)
  }
  await link.flush()
  const reader = new StreamReader(link, stream, false)
  await expect.poll(async () => (await reader.bounds()).last).toBe(LENGTH)
  await reader.remove(removed)
  const gone = new Set(removed)
  const left = Array.from({ length: LENGTH }, (_, at) => LENGTH - at).filter((seq) => !gone.has(seq))
  const isRare = (seq: number) => seq % 997 === 0 || (seq > 400 && seq < 480)
  const matches = {
    rare: left.filter(isRare),
    often: left.filter((seq) => !isRare(seq) && seq % 3 === 0),
    none: [],
  }
  const bounds = () => reader.bounds()
  expect(await drain((below) => new WholeScan(reader, bounds, below), 700)).toEqual(left)
  for (const [kind, expected] of Object.entries(matches)) {
    const sample = { filter: `${stream}.${kind}.0.*`, share: 2 }
    // With and without asking the server where the first and the last match are.
    for (const options of [{ near: 64 }, { near: 64, max: 5, sample }, { near: 16, max: 5 }, {}]) {
      const scanOf = (below: number) => new FilteredScan(reader, `${stream}.${kind}.*.*`, bounds, below, options)
      expect(await drain(scanOf, 300), `${kind} ${JSON.stringify(options)}`).toEqual(expected)
    }
  }
})

test("a page of rare messages reads little more than it has, in windows and where it goes on", async () => {
  const stream = generateId()
  await link.api(`STREAM.CREATE.${stream}`, { name: stream, subjects: [`${stream}.>`], allow_direct: true })
  const [LENGTH, EVERY, PAGE] = [40_000, 400, 45]
  for (let seq = 1; seq <= LENGTH; seq++)
    link.send(`${stream}.${seq % EVERY === 0 ? "rare" : "other"}.${seq % 4}.${seq}`, new Uint8Array(0))
  await link.flush()
  const reader = new StreamReader(link, stream, false)
  await expect.poll(async () => (await reader.bounds()).last).toBe(LENGTH)
  // Windows are as wide as they are quick, so that a busy machine has more of them: here each of them takes no time.
  vi.useFakeTimers({ toFake: ["performance"] })
  const sample = { filter: `${stream}.rare.0.*`, share: 1 }
  let below = Number.POSITIVE_INFINITY
  for (let page = 0; page < 2; page++) {
    using watched = watchRequests()
    const options = { near: 512, sample }
    const scan = new FilteredScan(reader, `${stream}.rare.*.*`, () => reader.bounds(), below, options)
    for (let n = 0; n < PAGE; n++) {
      expect((await scan.peek(() => false))?.seq).toBe(LENGTH - (page * PAGE + n) * EVERY)
      scan.take()
    }
    below = scan.position
    const answered = watched.requests.reduce((sum, { messages }) => sum + messages, 0)
    // A few messages beyond the page are read, and one for each window that shows that the window is over.
    expect(answered, JSON.stringify(watched.requests)).toBeLessThan(2 * PAGE)
  }
})
