import pg from "pg"
import { expect, test } from "vitest"
import { environmentOf, unpackedAt } from "./debian.ts"
import { type PostgresServer, startPostgres } from "./postgres.ts"
import { fetchPostgres } from "./postgres-program.ts"
import { isRunning, spawnProcess } from "./process.ts"

async function ask(server: PostgresServer, text: string): Promise<ReadonlyArray<Record<string, unknown>>> {
  const client = new pg.Client({ connectionString: server.url })
  client.on("error", () => undefined)
  try {
    await client.connect()
    return (await client.query<Record<string, unknown>>(text)).rows
  } finally {
    await client.end().catch(() => undefined)
  }
}

test("a server that is killed keeps its port and its data, and syncs to disk", async () => {
  await using server = await startPostgres()
  const { pid, port } = server
  expect(await ask(server, "SHOW fsync")).toEqual([{ fsync: "on" }])
  await ask(server, "CREATE TABLE kept AS SELECT 1 AS one")
  await server.kill()
  await expect(ask(server, "SELECT 1")).rejects.toThrow()
  await server.restart()
  expect(server.pid).not.toBe(pid)
  expect(server.port).toBe(port)
  expect(await ask(server, "TABLE kept")).toEqual([{ one: 1 }])
  await server.restart()
  expect(await ask(server, "TABLE kept")).toEqual([{ one: 1 }])
})

test("two servers at once have ports of their own, and stop", async () => {
  const [one, two] = await Promise.all([startPostgres(), startPostgres()])
  expect(one.port).not.toBe(two.port)
  await Promise.all([one.stop(), two.stop()])
  expect(isRunning(one.pid) || isRunning(two.pid)).toBe(false)
})

test("Debian's package brings its libraries with it", async () => {
  const { path, version } = await fetchPostgres()
  const folder = unpackedAt(path)
  expect(folder).toBeDefined()
  const program = spawnProcess(path, ["--version"], { env: environmentOf(folder) })
  await program.closed
  expect(program.stdout).toContain(version)
})
