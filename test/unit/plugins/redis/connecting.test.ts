/** How the redis transport connects, what it refuses, and how it notices that a connection is lost. Against a real server. */
import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { createServer, connect as dial, type Socket } from "node:net"
import { connect } from "callboard"
import { expect, test } from "vitest"
import { plugin } from "../../../../plugins/redis/mod.ts"
import { TransportError } from "../../../../runtime/transport/mod.ts"
import { eventually } from "../../../support/servers/process.ts"
import { startRedis } from "../../../support/servers/redis.ts"
import { ownServer } from "./own-server.ts"
import { options, posting } from "./posting.ts"

const redis = ownServer()
const { ask, texts } = redis

/** The error with which connecting fails. */
const refusal = async (url: string): Promise<unknown> => {
  try {
    await (await plugin.connect(new URL(url), options("refused"))).close()
    return "it connected"
  } catch (error) {
    return error instanceof TransportError ? [error.reason, error.message] : error
  }
}

test("the durability is what the server's files give", async () => {
  const found: Array<string> = []
  for (const [appendonly, appendfsync] of [
    ["no", "always"],
    ["yes", "everysec"],
    ["yes", "no"],
    ["yes", "always"],
  ] as const) {
    await ask("CONFIG", "SET", "appendonly", appendonly, "appendfsync", appendfsync)
    await using client = await connect(`${redis.server.url}?ns=durable`)
    found.push((await client.submit("a.b", { queue: "nowhere" })).receipt.durability)
  }
  expect(found).toEqual(["process", "process", "server", "fsync"])
})

test("a database, a prefix, and a namespace keep boards apart", async () => {
  const one = await plugin.connect(new URL(`${redis.server.url}/3?global_keyprefix=tenant:`), options("callboard"))
  await one.publish([posting("a")])
  await ask("SELECT", "3")
  const keys = await texts("KEYS", "*")
  await ask("SELECT", "0")
  expect(keys).toContain("tenant:q")
  expect(keys.filter((key) => !key.startsWith("tenant:"))).toEqual([])
  await one.close()
  const plain = await plugin.connect(new URL(`${redis.server.url}/4`), options("callboard"))
  await plain.publish([posting("a")])
  await ask("SELECT", "4")
  expect(await ask("LLEN", "q")).toBe(1)
  await ask("SELECT", "0")
  await plain.close()
})

test("a URL that has no meaning is invalid, and the error names the part", async () => {
  expect(await refusal(`${redis.server.url}/mine`)).toEqual([
    "invalid",
    expect.stringContaining('the database must be a number, not "mine"'),
  ])
  expect(await refusal(`${redis.server.url}/99`)).toEqual([
    "invalid",
    expect.stringContaining("DB index is out of range"),
  ])
  expect(await refusal(`${redis.server.url}?colour=red`)).toEqual([
    "invalid",
    expect.stringContaining("?colour is not an option of redis:"),
  ])
  expect(await refusal(`${redis.server.url}?visibility_timeout=soon`)).toEqual([
    "invalid",
    expect.stringContaining("visibility_timeout must be a number"),
  ])
  expect(await refusal("rediss://127.0.0.1:1?ssl_ca_certs=/nowhere.pem")).toEqual([
    "invalid",
    expect.stringContaining("ssl_ca_certs"),
  ])
  expect(await refusal("redis://127.0.0.1:1")).toEqual(["unavailable", expect.stringContaining("redis: ")])
})

test("over a socket, with a password, and over TLS", async () => {
  const { folder } = redis.server
  execFileSync(
    "openssl",
    [
      "req",
      "-x509",
      "-newkey",
      "rsa:2048",
      "-nodes",
      "-keyout",
      "key.pem",
      "-out",
      "cert.pem",
      "-days",
      "2",
      "-subj",
      "/CN=localhost",
      "-addext",
      "subjectAltName=IP:127.0.0.1",
    ],
    { cwd: folder, stdio: "pipe" },
  )
  const tlsPort = await import("../../../support/servers/process.ts").then(({ freePort }) => freePort())
  await using guarded = await startRedis([
    ...["--save", "", "--requirepass", "secret", "--unixsocket", `${folder}/redis.sock`, "--tls-port", String(tlsPort)],
    ...["--tls-cert-file", `${folder}/cert.pem`, "--tls-key-file", `${folder}/key.pem`, "--tls-auth-clients", "no"],
  ])
  const works = async (url: string) => {
    const driver = await plugin.connect(new URL(url), options("way"))
    const [receipt] = await driver.publish([posting("a")])
    await driver.close()
    return receipt?.status
  }
  expect(await works(`redis://:secret@127.0.0.1:${guarded.port}`)).toBe("stored")
  expect(await works(`redis+socket://:secret@localhost${folder}/redis.sock?virtual_host=2`)).toBe("stored")
  expect(await works(`redis+unix://:secret@localhost${folder}/redis.sock`)).toBe("duplicate")
  expect(await works(`rediss://:secret@127.0.0.1:${tlsPort}?ssl_ca_certs=${folder}/cert.pem`)).toBe("duplicate")
  expect(await works(`rediss://:secret@127.0.0.1:${tlsPort}/1?ssl_cert_reqs=none`)).toBe("stored")
  expect(await refusal(`rediss://:secret@127.0.0.1:${tlsPort}`)).toEqual([
    "unavailable",
    expect.stringMatching(/certificate/),
  ])
  expect(await refusal(`redis://:wrong@127.0.0.1:${guarded.port}`)).toEqual([
    "unauthorized",
    expect.stringContaining("WRONGPASS"),
  ])
  expect(await refusal(`redis://127.0.0.1:${guarded.port}`)).toEqual([
    "unauthorized",
    expect.stringContaining("NOAUTH"),
  ])
})

test("a server that may evict tasks is refused", async () => {
  await ask("CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "allkeys-lru")
  const message = "redis: maxmemory-policy allkeys-lru deletes tasks when the memory is full: set it to noeviction"
  expect(await refusal(redis.server.url)).toEqual(["unsupported", message])
  await ask("CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
})

test("the commands that the page lists are those that are used", () => {
  const read = (path: string) => readFileSync(new URL(`../../../../${path}`, import.meta.url), "utf8")
  const [, listed = ""] = /```text commands\n(.*?)```/s.exec(read("docs/redis.md")) ?? []
  const scripts = ["scripts", "queue-scripts", "record-scripts", "store-scripts"].flatMap((file) => [
    ...read(`plugins/redis/${file}.ts`).matchAll(/\bcall\('([A-Z]+)'/g),
  ])
  const direct = ["link", "driver"].flatMap((file) => [
    ...read(`plugins/redis/${file}.ts`).matchAll(/\bcommand\("([A-Z]+)"/g),
  ])
  // The client library sends these commands by itself when it connects and subscribes.
  const library = ["AUTH", "HELLO", "SELECT", "SUBSCRIBE"]
  const used = new Set([...scripts, ...direct].map(([, command = ""]) => command).concat(library))
  expect(listed.split(/\s+/).filter(Boolean).toSorted()).toEqual([...used].toSorted())
})

test("scripts that an operator removes are loaded again", async () => {
  const driver = await plugin.connect(new URL(redis.server.url), options("flushed"))
  await ask("SCRIPT", "FLUSH")
  expect(await driver.publish([posting("a")])).toEqual([{ status: "stored" }])
  await driver.close()
})

test("a connection whose announcements do not come any more is lost, though commands are answered", async () => {
  let announcing: Socket | undefined
  const proxy = createServer((near) => {
    const far = dial(redis.server.port, "127.0.0.1")
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on("data", (bytes) => {
        if (from === near && bytes.includes("subscribe")) announcing = far
        to.write(bytes)
      })
      from.on("error", () => to.destroy())
      from.on("close", () => to.destroy())
    }
  })
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve))
  const address = proxy.address()
  if (address === null || typeof address === "string") throw new Error("the proxy has no port")
  const url = new URL(`redis://127.0.0.1:${address.port}`)
  const driver = await plugin.connect(url, { ...options("silent"), heartbeat: 500 })
  const told: Array<string> = []
  driver.onStatus((status) => told.push(status))
  announcing?.pause()
  await eventually(() => told.includes("connected"), { deadline: 10_000, message: "the connection is opened again" })
  expect(told[0]).toBe("disconnected")
  await driver.close()
  await new Promise((resolve) => proxy.close(resolve))
})
