/** Connecting to nats: errors of connections that are refused, and the use of an application's own connection. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { connect as dial, nkeys } from "nats"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { plugin } from "../../../../plugins/nats/mod.ts"
import type { Transport } from "../../../../runtime/transport/job-store/transport.ts"
import type { ConnectOptions, TransportError } from "../../../../runtime/transport/mod.ts"
import { isTransportError } from "../../../kit/check.ts"
import { taskOf } from "../../../kit/task.ts"
import { fastest } from "../../../support/fastest.ts"
import { type NatsServer, startNats } from "../../../support/servers/nats.ts"
import { evalArguments } from "../../../support/servers/process.ts"
import { connectNats } from "./connect-nats.ts"

let count = 0
const options = (fields: Partial<ConnectOptions> = {}): ConnectOptions => ({
  namespace: `connect-${process.pid}-${++count}`,
  lease: 30_000,
  name: "test",
  timeout: 2_000,
  ...fields,
})

const never = new AbortController().signal

/** The error with which connecting fails. */
const refusal = async (url: string, fields: Partial<ConnectOptions> = {}): Promise<TransportError> => {
  try {
    const transport = await connectNats(url, options(fields))
    await transport.close()
  } catch (error) {
    if (isTransportError(error)) return error
    throw error
  }
  throw new Error("it connected")
}

/**
 * What an error looks like in a process of its own. On Deno 2.9 a socket that the client has destroyed may fail once
 * more, without a listener for the error, when the server has refused the credentials: now and again that ends the
 * process.
 */
const refusedElsewhere = (url: string): Record<string, string> => {
  const script = `
    const { plugin } = await import(${JSON.stringify(new URL("../../../../plugins/nats/mod.ts", import.meta.url).href)})
    const options = { namespace: "refused", lease: 30_000, name: "test", timeout: 2_000 }
    await plugin.connect(new URL(${JSON.stringify(url)}), options).catch((error) => {
      const { reason, message, stack, cause } = error
      console.log(JSON.stringify({ reason, message, stack, cause: String(cause), json: JSON.stringify(error) }))
    })
  `
  for (let attempt = 0; attempt < 5; attempt++) {
    // Deno must use the installed packages, as in all tests: otherwise it downloads its own, and prints that.
    const { stdout, stderr } = spawnSync(process.execPath, evalArguments(script), { encoding: "utf8", timeout: 15_000 })
    if (stdout.trim() !== "") return JSON.parse(stdout)
    if (!stderr.includes("ECONNRESET")) throw new Error(stderr)
  }
  throw new Error("the process was never told why it was refused")
}

describe("a server with users", () => {
  let server: NatsServer
  beforeAll(async () => {
    server = await startNats({
      config: `
        accounts {
          A {
            jetstream: enabled
            users: [
              { user: "zoe", password: "s3cret" }
              { user: "eve", password: "s3cret", permissions: { publish: { deny: "*.j.>" } } }
              { user: "ann", password: "s3cret", permissions: { subscribe: { deny: "*.ev.>" } } }
            ]
          }
          B { users: [{ user: "bob", password: "s3cret" }] }
        }`,
    })
  })
  afterAll(() => server?.stop())

  const url = (user: string, password: string) => `nats://${user}:${password}@127.0.0.1:${server.port}`

  test("accepts a client with the password", async () => {
    const transport = await connectNats(url("zoe", "s3cret"), options())
    expect(await transport.jobs.publish([taskOf({ id: "a", queue: "q" })])).toEqual([{ status: "stored" }])
    await transport.close()
  })

  test("wrong credentials are unauthorized, and shown nowhere", () => {
    const shown = refusedElsewhere(url("zoe", "wr0ng"))
    expect(shown.reason).toBe("unauthorized")
    for (const each of Object.values(shown)) expect(each).not.toMatch(/wr0ng|zoe/)
  })

  test("an account without JetStream is unsupported, with what to do", async () => {
    const error = await refusal(url("bob", "s3cret"))
    expect([error.reason, error.message]).toEqual(["unsupported", expect.stringMatching(/JetStream.*account/)])
  })

  test("what the server does not allow is unauthorized at once", async () => {
    const transport = await connectNats(url("eve", "s3cret"), options())
    const [[receipt], ms] = await fastest(1_500, () => transport.jobs.publish([taskOf({ id: "a", queue: "q" })]))
    expect(receipt).toMatchObject({ status: "failed", error: { reason: "unauthorized", outcome: "none" } })
    expect(ms).toBeLessThan(1_500)
    await transport.close()
  })

  test("so is a wait for the end of a job, each time", async () => {
    const transport = await connectNats(url("ann", "s3cret"), options())
    for (const id of ["a", "b"]) {
      const waiting = transport.jobs.watch({ id, ends: true }, () => undefined, new AbortController().signal)
      await expect(waiting).rejects.toMatchObject({ reason: "unauthorized" })
    }
    await transport.close()
  })
})

test("a seed or a token in a file lets in", async () => {
  const folder = mkdtempSync(join(tmpdir(), "callboard-nats-"))
  const user = nkeys.createUser()
  writeFileSync(join(folder, "seed"), user.getSeed())
  writeFileSync(join(folder, "token"), "t0ken\n")
  const configs = [
    { config: `authorization { users: [{ nkey: ${user.getPublicKey()} }] }`, query: `nkey=${folder}/seed` },
    { config: "authorization { token: t0ken }", query: `tokenFile=${folder}/token` },
  ]
  for (const { config, query } of configs) {
    await using server = await startNats({ config })
    const transport = await connectNats(`${server.url}?${query}`, options())
    expect(await transport.jobs.publish([taskOf({ id: "a", queue: "q" })])).toEqual([{ status: "stored" }])
    await transport.close()
  }
  rmSync(folder, { recursive: true })
})

describe("what is not there", () => {
  test("a server without JetStream is unsupported, with what to do", async () => {
    await using server = await startNats({ jetstream: false })
    const error = await refusal(server.url)
    expect([error.reason, error.message]).toEqual(["unsupported", expect.stringContaining("nats-server -js")])
  })

  test("a server that is cut off from its cluster is unavailable: it has JetStream when it is back", async () => {
    const cutOff = createServer((socket) => {
      const info = {
        version: "2.15.1",
        headers: true,
        max_payload: 1_048_576,
        jetstream: true,
        cluster: "lab",
        proto: 1,
      }
      socket.write(`INFO ${JSON.stringify(info)}\r\n`)
      socket.on("error", () => undefined)
      let inbox = "1"
      socket.on("data", (data) => {
        for (const line of data.toString().split("\r\n")) {
          const [word, subject, reply = ""] = line.split(" ")
          if (word === "PING") socket.write("PONG\r\n")
          if (word === "SUB") inbox = line.split(" ").at(-1) ?? "1"
          if (word !== "PUB" || subject !== "$JS.API.INFO") continue
          const headers = "NATS/1.0 503\r\n\r\n"
          socket.write(`HMSG ${reply} ${inbox} ${headers.length} ${headers.length}\r\n${headers}\r\n`)
        }
      })
    })
    await new Promise<void>((resolve) => cutOff.listen(0, "127.0.0.1", resolve))
    const address = cutOff.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    const error = await refusal(`nats://127.0.0.1:${port}`)
    expect([error.reason, error.message]).toEqual(["unavailable", expect.stringMatching(/cut off from its cluster/)])
    cutOff.close()
  })

  test("a server of an old release is unsupported, whatever the URL allows", async () => {
    await using server = await startNats({ release: "old" })
    for (const query of ["", "?allowOldServer"]) {
      const error = await refusal(server.url + query)
      expect([error.reason, error.message]).toEqual(["unsupported", expect.stringMatching(/is 2\.\d+\.\d+.*2\.15/)])
    }
  })

  test("TLS where there is none is unsupported", async () => {
    await using server = await startNats()
    const error = await refusal(server.url.replace("nats:", "tls:"))
    expect([error.reason, error.message]).toEqual(["unsupported", expect.stringContaining("tls")])
  })

  test("no server is unavailable", async () => {
    const error = await refusal("nats://127.0.0.1:1")
    expect([error.reason, error.retryable, error.outcome]).toEqual(["unavailable", true, "none"])
  })

  test("a server that never answers is unavailable within the timeout", async () => {
    const silent = createServer(() => undefined)
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve))
    const address = silent.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    const start = performance.now()
    const error = await refusal(`nats://127.0.0.1:${port}`, { timeout: 600 })
    expect(error.reason).toBe("unavailable")
    expect(performance.now() - start).toBeLessThan(4_000)
    silent.close()
  })
})

describe("a board", () => {
  let server: NatsServer
  beforeAll(async () => {
    server = await startNats()
  })
  afterAll(() => server?.stop())

  const open = (query: string, fields: ConnectOptions): Promise<Transport> => connectNats(server.url + query, fields)

  test("keeps the bands that it was made with", async () => {
    const given = options()
    const first = await open("?bands=10", given)
    expect(first.capabilities.bands).toBe(10)
    const second = await open("", given)
    expect(second.capabilities.bands).toBe(10)
    const error = await refusal(`${server.url}?bands=3`, given)
    expect([error.reason, error.message]).toEqual(["invalid", expect.stringContaining("bands=10")])
    await Promise.all([first.close(), second.close()])
  })

  test("keeps its storage, and says how durable it is", async () => {
    const given = options()
    const transport = await open("?storage=memory", given)
    expect(transport.capabilities.durability).toBe("process")
    expect((await refusal(`${server.url}?storage=file`, given)).reason).toBe("invalid")
    await transport.close()
  })

  test("cannot have more replicas than there are servers", async () => {
    const error = await refusal(`${server.url}?replicas=3`)
    expect(["unavailable", "invalid", "internal"]).toContain(error.reason)
    expect(error.message).toMatch(/replicas/)
  })

  test("is refused over streams of another program", async () => {
    const given = options()
    const client = await dial({ servers: server.url })
    const manager = await client.jetstreamManager()
    await manager.streams.add({ name: `${given.namespace}_queue`, subjects: [`${given.namespace}.j.>`] })
    expect((await refusal(server.url, given)).message).toMatch(/does not belong to Callboard/)
    await client.close()
  })

  test("of an earlier version is refused, with what to do", async () => {
    const given = options()
    const client = await dial({ servers: server.url })
    const manager = await client.jetstreamManager()
    const metadata = { "callboard.bands": "3" }
    await manager.streams.add({ name: `${given.namespace}_queue`, subjects: [`${given.namespace}.j.>`], metadata })
    const error = await refusal(server.url, given)
    expect([error.reason, error.message]).toEqual([
      "unsupported",
      expect.stringMatching(/version 1.*namespace.*_queue/),
    ])
    await client.close()
  })

  test("is not served with a queue that drops its oldest tasks", async () => {
    const given = options()
    await (await open("", given)).close()
    const client = await dial({ servers: server.url })
    const name = `$JS.API.STREAM.UPDATE.${given.namespace}_queue`
    const info: unknown = (await client.request(`$JS.API.STREAM.INFO.${given.namespace}_queue`)).json()
    const config = typeof info === "object" && info !== null && "config" in info ? info.config : {}
    await client.request(name, JSON.stringify({ ...Object(config), max_msgs: 10 }))
    const error = await refusal(server.url, given)
    expect([error.reason, error.message]).toEqual(["invalid", expect.stringContaining("max_msgs")])
    await client.close()
  })

  test("two that make it at the same time both get it", async () => {
    const given = options()
    const all = await Promise.all(Array.from({ length: 5 }, () => open("", given)))
    await all[0]?.jobs.publish([taskOf({ id: "a", queue: "q" })])
    expect((await all[4]?.jobs.take({ queues: ["q"], max: 1, wait: 2_000 }, never))?.length).toBe(1)
    await Promise.all(all.map((each) => each.close()))
  })

  test("a longer lease of one worker is kept for all", async () => {
    const given = options({ lease: 5_000 })
    const long = await open("", given)
    await long.jobs.publish([taskOf({ id: "a", queue: "q" })])
    const [delivery] = await long.jobs.take({ queues: ["q"], max: 1, wait: 2_000 }, never)
    expect(delivery).toBeDefined()
    const short = await open("", { ...given, lease: 1_000 })
    expect(await short.jobs.take({ queues: ["q"], max: 1, wait: 2_000 }, never)).toEqual([])
    expect(await long.jobs.extend([delivery?.token ?? ""])).toEqual([true])
    await Promise.all([long.close(), short.close()])
  })
})

describe("a connection that the application holds", () => {
  let server: NatsServer
  beforeAll(async () => {
    server = await startNats()
  })
  afterAll(() => server?.stop())

  test("carries a transport, and stays open when that is closed", async () => {
    const client = await dial({ servers: server.url })
    const driver = await plugin.adopt?.(client, options())
    expect(driver?.name).toBe("nats")
    await driver?.store.write([{ key: "a", value: new Uint8Array(1) }])
    const waiting = driver?.take({ queues: ["other"], max: 1, wait: 20_000, rotate: false }, never)
    await driver?.close()
    expect(await waiting).toEqual({ deliveries: [] })
    expect(client.isClosed()).toBe(false)
    // The transport has left no subscription on the connection.
    await client.flush()
    const { inMsgs } = client.stats()
    await client.flush()
    expect(client.stats().inMsgs).toBe(inMsgs)
    await client.close()
  })

  test("other objects are none of ours", () => {
    for (const other of [undefined, null, 7, "nats", {}, { publish: () => undefined }]) {
      expect(plugin.adopt?.(other, options())).toBeUndefined()
    }
  })

  test("one that is closed is refused as closed", async () => {
    const client = await dial({ servers: server.url })
    await client.close()
    await expect(plugin.adopt?.(client, options())).rejects.toMatchObject({ reason: "closed" })
  })
})
