/** Tasks that programs without Callboard publish on NATS (docs/wire-nats.md), byte by byte over a socket. */
import { connect as dial, type Socket } from "node:net"
import { encode as encodeMsgpack } from "@msgpack/msgpack"
import { actor, type Client, connect } from "callboard"
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest"
import { plugin } from "../../../../plugins/nats/mod.ts"
import { generateId } from "../../../../runtime/id.ts"
import { type NatsServer, startNats } from "../../../support/servers/nats.ts"
import { eventually } from "../../../support/servers/process.ts"
import { start } from "../../../support/services.ts"

let server: NatsServer
let client: Client
let producer: Producer
const stops: Array<() => Promise<void>> = []

/** Speaks the protocol of NATS itself, since no client would send the headers that are tried here. */
class Producer {
  readonly #socket: Socket
  #read = Buffer.alloc(0)
  #count = 0

  constructor(port: number) {
    this.#socket = dial(port, "127.0.0.1")
    this.#socket.on("data", (data) => {
      this.#read = Buffer.concat([this.#read, data])
    })
    this.#socket.write('CONNECT {"verbose":false,"headers":true}\r\nSUB answers.* 1\r\n')
  }

  /** Publishes headers and a body as they are; resolves with the server's receipt. */
  async publish(subject: string, block: string | Uint8Array, body: string | Uint8Array): Promise<unknown> {
    const [headers, data] = [Buffer.from(block), Buffer.from(body)]
    const inbox = `answers.${++this.#count}`
    const line = `HPUB ${subject} ${inbox} ${headers.length} ${headers.length + data.length}\r\n`
    this.#socket.write(Buffer.concat([Buffer.from(line), headers, data, Buffer.from("\r\n")]))
    const answer = new RegExp(`MSG ${inbox} 1 \\d+\r\n(.*)\r\n`)
    await eventually(() => answer.test(this.#read.toString()), { message: "the receipt has come" })
    return JSON.parse(answer.exec(this.#read.toString())?.[1] ?? "")
  }

  /** Subscribes to a subject. Returns a function with the messages so far, as parsed JSON. */
  hear(subject: string): () => ReadonlyArray<Readonly<Record<string, unknown>>> {
    this.#socket.write(`SUB ${subject} ${++this.#count}x\r\n`)
    const told = new RegExp(`^H?MSG ${subject.replaceAll(".", "\\.")} (?:.*\r\n)+?(\\{.*\\})\r\n`, "gm")
    return () => [...this.#read.toString().matchAll(told)].map(([, text = ""]) => JSON.parse(text))
  }

  end(): void {
    this.#socket.destroy()
  }
}

const block = (headers: Readonly<Record<string, string>>): string =>
  `NATS/1.0\r\n${Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join("")}\r\n`

/** Publishes a task to a queue. Resolves with its id. */
const submit = async (
  headers: Readonly<Record<string, string>> | string | Uint8Array,
  body: string | Uint8Array = "{}",
  { queue = "native", band = 4, id = generateId(), namespace = "callboard" } = {},
): Promise<string> => {
  const given = typeof headers === "string" || headers instanceof Uint8Array ? headers : block(headers)
  const receipt = await producer.publish(`${namespace}.j.${queue}.${band}.${id}`, given, body)
  expect(receipt).toMatchObject({ stream: `${namespace}_queue`, seq: expect.any(Number) })
  return id
}

let hanging = true
const native = actor("native", {
  queue: "native",
  methods: {
    echo: (input: unknown, { headers, queue, rootId, parentId }) => ({
      input,
      headers,
      queue,
      rootId: rootId ?? null,
      parentId: parentId ?? null,
    }),
    add: { params: ["x", "y"], run: ({ x, y }: { readonly x: number; readonly y: number }) => x + y },
    flaky: {
      retry: { max: 1, backoff: { base: 0.01, max: 0.01 } },
      run: (_: unknown, { retries }) => {
        if (retries === 0) throw new Error("once more")
        return retries
      },
    },
    hangs: async (_: unknown, { signal }) => {
      if (!hanging) return "done"
      await new Promise((resolve) => signal.addEventListener("abort", resolve))
      throw signal.reason
    },
    size: (input: { readonly text: string }) => input.text.length,
  },
})

beforeAll(async () => {
  server = await startNats()
  client = await connect(server.url)
  producer = new Producer(server.port)
  await start([native], { transport: server.url, unknownGrace: 0 }, (stop) => stops.push(stop))
})

afterAll(async () => {
  for (const stop of stops) await stop()
  producer?.end()
  await client?.close()
  await server?.stop()
})

/** Starts another service, for the queue of a single test. */
const serve = (queue: string) => start([native], { transport: server.url, queues: [queue], unknownGrace: 0 })

const outcome = (id: string) => client.job(id).outcome({ timeout: 30 })

/** The dead letter of a message without an id: its reason names the subject of the message. */
const deadLetter = (id: string): Promise<string> => {
  const find = async () => {
    const { jobs } = await client.jobs({ dead: true, limit: 1_000 })
    return jobs.flatMap(({ error, dead }) => (error?.message.includes(`.${id}: `) ? [`${dead}: ${error.message}`] : []))
  }
  return eventually(async () => (await find())[0]?.replace(/callboard\.j\.\S+: /, ""), {
    message: `the dead letter of ${id} is listed`,
  })
}

describe("a task with headers of NATS", () => {
  const ran = (input: unknown) => ({ state: "succeeded", result: expect.objectContaining({ input }) })

  test("takes its input from an object, or Celery's list, in JSON and msgpack", async () => {
    const msgpack = { task: "native.echo", "content-type": "application/x-msgpack", "content-encoding": "binary" }
    const plain = { task: "native.echo" }
    const bodies: ReadonlyArray<readonly [Readonly<Record<string, string>>, string | Uint8Array, unknown]> = [
      [plain, '{"to": "Ada", "args": [1]}', { to: "Ada", args: [1] }],
      [plain, ' \n{"n": 12345678901234567890}', { n: 12345678901234567890n }],
      [plain, '[[], {"to": "Ada"}, null]', { to: "Ada" }],
      [plain, '[["Ada"], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]', "Ada"],
      [plain, '[[1, 2], {"c": 3}, null]', { args: [1, 2], kwargs: { c: 3 } }],
      [plain, "", {}],
      [{ task: "native", meth: "echo", "Content-Type": "application/json; charset=utf-8" }, '{"a": 1}', { a: 1 }],
      [msgpack, encodeMsgpack({ a: [1, "é"] }), { a: [1, "é"] }],
      [msgpack, encodeMsgpack([["Ada"], {}, null]), "Ada"],
      // A frame of Callboard begins with this byte too.
      [{ task: "native.echo", "content-type": "application/octet-stream" }, Uint8Array.of(1, 2), Uint8Array.of(1, 2)],
    ]
    const ids = await Promise.all(bodies.map(([headers, body]) => submit(headers, body)))
    expect(await Promise.all(ids.map(outcome))).toEqual(bodies.map(([, , input]) => ran(input)))
    const sum = await submit({ task: "native.add" }, "[[2, 3], {}, null]")
    expect(await outcome(sum)).toEqual({ state: "succeeded", result: 5 })
  })

  test("has Celery's headers, and those of its application", async () => {
    const headers = { task: "native.echo", root_id: "root-1", parent_id: "parent-1", priority: "9", lang: "rust" }
    const kept = { shadow: "mail to Ada", timelimit: "[30, 20]", ignore_result: "false", "x-tenant": "acmé" }
    const id = await submit({ ...headers, ...kept, "Nats-Expected-Stream": "callboard_queue" }, "{}", { band: 7 })
    const ended = await outcome(id)
    const result = "result" in ended ? ended.result : undefined
    expect(result).toMatchObject({ queue: "native", rootId: "root-1", parentId: "parent-1" })
    expect(result).toMatchObject({ headers: { ...kept, timelimit: [30, 20], ignore_result: false } })
    expect(result).not.toHaveProperty(["headers", "Nats-Expected-Stream"])
    expect(await client.job(id).find()).toMatchObject({ id, priority: 9, state: "succeeded", attempts: 1 })
    const level = async (band: number) => (await client.job(await submit(headers0, "{}", { band })).find()).priority
    const headers0 = { task: "native.echo" }
    expect([await level(10), await level(7), await level(0)]).toEqual([9, 7, 0])
  })

  test("is a job while it waits: found, listed, counted, cancelled; and runs once, however often it is published", async () => {
    const queue = `waits-${generateId()}`
    const [id, later, gone] = [generateId(), generateId(), generateId()]
    const publish = (which: string, headers: object = {}) =>
      producer.publish(
        `callboard.j.${queue}.4.${which}`,
        block({ task: "native", meth: "echo", "Nats-Msg-Id": which, ...headers }),
        "{}",
      )
    expect(await publish(id)).not.toHaveProperty("duplicate")
    expect(await publish(id)).toMatchObject({ duplicate: true })
    await publish(later, { eta: "2999-01-01T00:00:00" })
    await publish(gone, { root_id: id })
    expect(await client.job(id).find()).toMatchObject({ state: "queued", queue, name: "native.echo" })
    const listed = async (query: object) =>
      (await client.jobs({ queue, ...query })).jobs.map((job) => job.id).toSorted()
    expect(await listed({})).toEqual([id, later, gone].toSorted())
    expect(await listed({ task: "native.echo" })).toHaveLength(3)
    expect(await listed({ task: "native", states: ["queued"] })).toHaveLength(3)
    expect(await listed({ task: "other" })).toEqual([])
    expect(await listed({ rootId: id })).toContain(gone)
    expect(await listed({ states: ["queued"] })).toHaveLength(3)
    expect(await client.job(later).find()).toMatchObject({ state: "queued" })
    await client.job(gone).cancel()
    await serve(queue)
    expect(await outcome(id)).toMatchObject({ state: "succeeded" })
    expect(await client.job(gone).find()).toMatchObject({ state: "cancelled", attempts: 0 })
    expect(await client.job(later).find()).toMatchObject({ state: "queued", attempts: 0 })
    // The server forgets such an id; the record of the job does not.
    await publish(id, { "Nats-Msg-Id": "another" })
    const after = await submit({ task: "native.echo" }, "{}", { queue })
    expect(await outcome(after)).toMatchObject({ state: "succeeded" })
    expect(await client.job(id).find()).toMatchObject({ attempts: 1 })
  })

  test("waits for its eta, also without a zone, and expires", async () => {
    const eta = new Date(Date.now() + 1_500).toISOString().replace("Z", "")
    const id = await submit({ task: "native.echo", eta })
    const late = await submit({ task: "native.echo", expires: "2020-01-01T00:00:00+05:30" })
    expect(await outcome(late)).toMatchObject({ state: "expired" })
    expect(await outcome(id)).toMatchObject({ state: "succeeded" })
    const { times, attempts: count } = await client.job(id).find()
    expect(Date.parse(times.started ?? "")).toBeGreaterThanOrEqual(Date.parse(`${eta}Z`) - 50)
    expect(count).toBe(1)
  })

  test("expires in a queue that nothing works", async () => {
    // No worker lives in this namespace, whose maintenance would record the task's end before it is looked for.
    const namespace = generateId()
    const driver = await plugin.connect(new URL(server.url), {
      namespace,
      lease: 30_000,
      name: "t",
      timeout: 5_000,
    })
    onTestFinished(() => driver.close())
    const id = await submit({ task: "native.echo", expires: "2020-01-01T00:00:00" }, "{}", { queue: "idle", namespace })
    expect(await driver.waiting?.({ expiredBy: Date.now() }, 10)).toEqual([id])
  })

  test("is tried again after a failure, and by the next worker when its own stops", async () => {
    expect(await outcome(await submit({ task: "native.flaky" }))).toEqual({ state: "succeeded", result: 1 })
    const queue = `stops-${generateId()}`
    const first = await serve(queue)
    const id = await submit({ task: "native.hangs" }, "{}", { queue })
    await eventually(async () => (await client.job(id).find()).state === "started", { message: "it runs" })
    await first.stop({ now: true })
    hanging = false
    await serve(queue)
    expect(await outcome(id)).toEqual({ state: "succeeded", result: "done" })
  })

  test("tells of its end on a subject of its own", async () => {
    const id = generateId()
    const heard = producer.hear(`callboard.ev.t.${id}`)
    await submit({ task: "native.add" }, "[[2, 3], {}, null]", { id })
    const said = await eventually(() => heard().find(({ state }) => state === "succeeded"), { message: "it is told" })
    expect(said).toMatchObject({ id, state: "succeeded", result: 5 })
  })
})

/** Expects each of these jobs to have failed as a dead letter, with a message that holds this text. */
const refused = async (ids: ReadonlyArray<string>, texts: ReadonlyArray<string>, reason?: string): Promise<void> => {
  const ended = await Promise.all(ids.map(outcome))
  const failed = texts.map((text) => ({
    state: "failed",
    error: expect.objectContaining({ message: expect.stringContaining(text), ...(reason && { reason }) }),
  }))
  expect(ended).toEqual(failed)
  for (const id of ids) expect(await client.job(id).find()).toMatchObject({ dead: expect.any(String) })
}

describe("what makes no task is a dead letter with the reason, and the worker goes on:", () => {
  const lives = async () =>
    expect(await outcome(await submit({ task: "native.add" }, "[[2, 3], {}, null]"))).toEqual({
      state: "succeeded",
      result: 5,
    })

  test("headers that cannot be read, in a list of jobs too", async () => {
    const queue = `hostile-${generateId()}`
    const ok = "task: native.echo\r\n"
    const bad: ReadonlyArray<readonly [string | Uint8Array, string]> = [
      ["NATS/1.0\r\n\r\n", 'neither a frame of Callboard nor a task, which has the header "task"'],
      ["NATS/1.0\r\nTask: native.echo\r\n\r\n", 'neither a frame of Callboard nor a task, which has the header "task"'],
      [Buffer.from(`NATS/1.0\r\n${ok}x: \xc3\r\n\r\n`, "latin1"), "its headers are not UTF-8"],
      [`NATS/1.0\r\n${ok}x: a\u0001b\r\n\r\n`, 'the header "x" contains control characters'],
      [`NATS/1.0\r\n${ok}x: a\rb\r\n\r\n`, 'the header "x" contains control characters'],
      [`NATS/1.0\r\n${ok}a b: c\r\n\r\n`, 'a header has no name: "a b: c"'],
      [`NATS/1.0\r\n${ok}nothing\r\n\r\n`, 'a header has no name: "nothing"'],
      [`NATS/1.0\r\n${ok}a: b\r\n\r\nc: d\r\n\r\n`, 'a header has no name: ""'],
      [`NATS/1.0\r\n${ok}`, "its headers are truncated"],
      ["NATS/1.0", "its headers are truncated"],
      ["no headers at all", "its headers are truncated"],
      [`NATS/1.0\r\n${ok}id: other\r\n\r\n`, 'its header "id" is not the id in its subject'],
      [
        block({ task: "native.echo", "content-encoding": "utf-16" }),
        'content-encoding "utf-16" is not supported: use utf-8 or binary; a compression is named in the header "compression"',
      ],
    ]
    const ids: Array<string> = []
    for (const [given] of bad) ids.push(await submit(given, given === bad[4]?.[0] ? "" : "{}", { queue }))
    const good = await submit(`NATS/1.0\r\n${ok}Nats-Sequence: 1\r\nNats-Subject: callboard.j.x.4.y\r\n\r\n`, "{}", {
      queue,
    })
    expect((await client.jobs({ queue })).jobs.map(({ id }) => id)).toEqual([good])
    expect(await client.job(good).find()).toMatchObject({ state: "queued", queue })
    await serve(queue)
    expect(await Promise.all(ids.map(deadLetter))).toEqual(bad.map(([, why]) => `undecodable: ${why}`))
    expect(await outcome(good)).toMatchObject({ state: "succeeded" })
    await lives()
  })

  test("an id that its subject does not hold as it must be written", async () => {
    await submit({ task: "native.echo" }, "{}", { id: "order:1" })
    expect(await deadLetter("order:1")).toBe("undecodable: the id in its subject must be written as order%3a1")
    await submit({ task: "native.echo" }, "{}", { id: "order%3a1" })
    expect(await outcome("order:1")).toMatchObject({ state: "succeeded" })
  })

  test("values that a header cannot have", async () => {
    const queue = `values-${generateId()}`
    const bad: ReadonlyArray<readonly [Readonly<Record<string, string>> | string, string]> = [
      [{ retries: "many" }, 'Header "retries" must be a whole number, 0 or more, not a string.'],
      [{ retries: "1.5" }, 'Header "retries" must be a whole number, 0 or more, not 1.5.'],
      [{ group_index: "-1" }, 'Header "group_index" must be a whole number, 0 or more, not -1.'],
      [{ priority: "high" }, 'Header "priority" must be a number from 0 to 9, not NaN.'],
      [{ timelimit: "30" }, 'Header "timelimit" must be [hard, soft], not a number.'],
      [{ timelimit: "[30]" }, 'Header "timelimit" must be [hard, soft], not a list of 1.'],
      [{ eta: "tomorrow" }, 'Header "eta" is not a time'],
      [{ expires: "60" }, 'Header "expires" is not a time'],
      [{ callboard: "{" }, 'Header "callboard"'],
      [
        "NATS/1.0\r\ntask: native.echo\r\neta: 2020-01-01T00:00:00\r\neta: 2030-01-01T00:00:00\r\n\r\n",
        'Header "eta" must be an ISO 8601 time as text, not a list.',
      ],
      ["NATS/1.0\r\ntask: native.echo\r\ntask: native.add\r\n\r\n", 'Header "task" must be a name as text.'],
    ]
    const ids = await Promise.all(
      bad.map(([given]) =>
        submit(typeof given === "string" ? given : { task: "native.echo", ...given }, "{}", { queue }),
      ),
    )
    // No value of such a message can be shown, so it is no job before a worker has taken it.
    for (const id of ids) await expect(client.job(id).find()).rejects.toMatchObject({ code: "not-found" })
    await serve(queue)
    for (const id of ids) await eventually(() => client.job(id).find(), { message: `${id} is a dead letter` })
    await refused(
      ids,
      bad.map(([, why]) => why),
      "invalid-task",
    )
    await lives()
  })

  test("bodies that cannot be read", async () => {
    const json = {}
    const bad: ReadonlyArray<readonly [Readonly<Record<string, string>>, string | Uint8Array, string]> = [
      [json, "{no JSON", "JSON"],
      [json, '{"a": 1}, {"b": 2}', "is a list of 4, not [args, kwargs, embed]"],
      [json, '"text"', "is not [args, kwargs, embed]"],
      [json, "[[1], {}]", "is a list of 2, not [args, kwargs, embed]"],
      [json, Uint8Array.of(0x7b, 0x22, 0xc3, 0x22, 0x3a, 0x31, 0x7d), "UTF-8"],
      [{ "content-type": "application/x-msgpack" }, Uint8Array.of(0x81, 0xa1), "msgpack"],
      [
        { "content-type": "application/x-python-serialize" },
        "\u0080\u0004K\u0001.",
        "Pickle can run arbitrary code when it is decoded",
      ],
      [{ "content-type": "image/png" }, "png", "image/png"],
      [
        { compression: "application/x-lzma" },
        "xz",
        'Compression "application/x-lzma" is not supported; use application/x-gzip',
      ],
      [{ compression: "application/x-gzip" }, "no gzip", "The body is not application/x-gzip"],
      [{ compression: "application/x-bz2" }, "no bzip2", "The body is not application/x-bz2"],
    ]
    const ids = await Promise.all(bad.map(([headers, body]) => submit({ task: "native.echo", ...headers }, body)))
    await refused(
      ids,
      bad.map(([, , why]) => why),
    )
    await lives()
  })

  test("bodies of a megabyte, which no retry could store again", async () => {
    const max = 1024 * 1024 - 4096
    const large = JSON.stringify({ text: "x".repeat(max) })
    const ids = await Promise.all([
      submit({ task: "native.size" }, large),
      submit({ task: "native.size", "content-type": "application/octet-stream" }, new Uint8Array(max).fill(1)),
      submit("NATS/1.0\r\n\r\n", large),
    ])
    const [json, bytes, none] = await Promise.all(ids.map(deadLetter))
    for (const why of [json, bytes])
      expect(why).toMatch(
        /^undecodable: \d+ bytes; at most 364544 are allowed\. Store large data elsewhere and send its address$/,
      )
    expect(none).toContain("nor a task")
    // A task that is a little smaller is accepted, and is stored again for its retry.
    const fits = await submit({ task: "native.flaky" }, JSON.stringify({ text: "x".repeat(364_000) }))
    expect(await outcome(fits)).toEqual({ state: "succeeded", result: 1 })
    await lives()
  })
})
