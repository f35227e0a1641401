/** A client and a service in bundles, and a service in one binary: built from the package as npm packs it, and run. */
import { mkdirSync, renameSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest"
import { findRuntime } from "../../runtime/cli/runtimes.js"
import { startNats } from "../support/servers/nats.ts"
import { freePort, type SpawnOptions, spawnProcess, temporaryFolder } from "../support/servers/process.ts"
import { findNode, OLDEST_NODE } from "../support/tools/node.js"
import { installedBlocks, shellBlock } from "../support/tools/pages.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const folder = temporaryFolder()
const project = join(folder.path, "project")
/** Programs run in a folder that has no packages. */
const elsewhere = join(folder.path, "elsewhere")
afterAll(() => folder.remove())

/** Runs a program to its end, which must be a good one. Resolves with what it has written. */
const run = async (command: string, args: readonly string[], options: SpawnOptions = {}): Promise<string> => {
  await using child = spawnProcess(command, args, { cwd: project, ...options })
  const { code } = await child.closed
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${code}:\n${child.output}`)
  return child.output
}

const npmInstall = (...packages: readonly string[]) =>
  run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", "--silent", ...packages])

const bun = findRuntime("bun")?.path ?? "bun"

/** The address of a PostgreSQL that is not there: the library is loaded before it is called. */
const CLIENT = `
import { connect, connectHttp } from "callboard/client"

const [, , nats, http] = process.argv
const main = async () => {
  const client = await connect(nats)
  console.log(await (await client.submit("text.shout", { input: { text: "nats" } })).result({ timeout: "20 seconds" }))
  await client.close()
  const overHttp = connectHttp(http)
  console.log(await (await overHttp.submit("text.shout", { input: { text: "http" } })).result({ timeout: "20 seconds" }))
  for (const url of ["postgres://127.0.0.1:1/none", "redis://127.0.0.1:1", "amqp://127.0.0.1:1?records=memory:"])
    await connect(url).catch(({ message }) => console.log(message))
}
void main()
`

const SERVICE = `
import { actor, serve } from "callboard"

const text = actor("text", {
  module: import.meta.url,
  methods: {
    shout: ({ text }: { text: string }) => text.toUpperCase(),
    block: ({ ms }: { ms: number }, job) => {
      const end = Date.now() + ms
      while (Date.now() < end);
      return job.attempt
    },
    alone: { isolation: "process", run: () => ({ pid: process.pid, argument: process.argv[2] }) },
  },
})
const [, , transport = "", port] = process.argv
await serve({ transport, actors: [text], http: { port: Number(port) } })
`

/** The banner that the page tells users of esbuild to add. */
const banner = /--banner:js="([^"]+)"/.exec(shellBlock(installedBlocks.esbuild))?.[1] ?? ""

const esbuild = (entry: string, outfile: string, ...more: readonly string[]) =>
  run(join(project, "node_modules/.bin/esbuild"), [
    entry,
    "--bundle",
    "--platform=node",
    "--log-level=error",
    `--outfile=${outfile}`,
    ...more,
  ])

const bundlers: Readonly<Record<string, { build: (name: string) => Promise<string>; program: string; node?: false }>> =
  {
    "esbuild, as an ES module": {
      program: "client.mjs",
      build: (name) => esbuild("client.ts", name, "--format=esm", `--banner:js=${banner}`),
    },
    "esbuild, as CommonJS": {
      program: "client.cjs",
      build: (name) => esbuild("client.ts", name, "--format=cjs"),
    },
    "bun build": {
      program: "client.js",
      node: false,
      build: (name) => run(bun, ["build", "client.ts", "--target=bun", `--outfile=${name}`]),
    },
    "vite build --ssr": {
      program: "vite/client.js",
      build: (name) =>
        run("node", [join(root, "node_modules/vite/bin/vite.js"), "build", "--outDir", join(name, "..")]),
    },
  }

const VITE = `export default { ssr: { noExternal: true }, build: { ssr: "client.ts", emptyOutDir: false } }`

beforeAll(async () => {
  mkdirSync(project)
  mkdirSync(elsewhere)
  for (const place of [project, elsewhere]) writeFileSync(join(place, "package.json"), '{ "type": "module" }')
  writeFileSync(join(project, "client.ts"), CLIENT)
  writeFileSync(join(project, "service.ts"), SERVICE)
  writeFileSync(join(project, "vite.config.js"), VITE)
  await npmInstall(inject("tarball"), "esbuild@0.28.2")
}, 120_000)

/** Runs the service, on the runtime in which this test runs, for the clients. */
const startService = async (transport: string, command = bun, args = ["service.ts"], cwd = project) => {
  const port = await freePort()
  const service = spawnProcess(command, [...args, transport, String(port)], { cwd })
  await service.waitForLine(/message=ready/)
  return { service, url: `http://127.0.0.1:${port}` }
}

const missing = (name: string, library: string) => `${name}: the package ${library} is missing: npm install ${library}`

describe("a client in a bundle", () => {
  const builtBy = async (libraries: "without" | "with") => {
    await using server = await startNats()
    const { service, url } = await startService(server.url)
    await using _service = service
    const printed: Record<string, readonly string[]> = {}
    for (const [bundler, { build, program, node }] of Object.entries(bundlers)) {
      const file = join(elsewhere, libraries, program)
      await build(file)
      // Bun would install a package that it does not find.
      const [runtime, ...flags] = node === false ? [bun, "--no-install"] : [findNode(OLDEST_NODE)]
      const text = await run(runtime, [...flags, file, server.url, url], { cwd: elsewhere })
      printed[bundler] = text.trimEnd().split("\n")
    }
    return printed
  }

  test("runs without the optional libraries, and says which one is missing", { timeout: 180_000 }, async () => {
    const lines = [missing("postgres", "pg"), missing("redis", "redis"), missing("amqp", "amqplib")]
    const printed = await builtBy("without")
    for (const bundler of Object.keys(bundlers)) expect(printed[bundler], bundler).toEqual(["NATS", "HTTP", ...lines])
  })

  test("holds the optional libraries that are installed", { timeout: 180_000 }, async () => {
    await npmInstall("pg")
    const printed = await builtBy("with")
    for (const bundler of Object.keys(bundlers)) {
      expect(printed[bundler]?.slice(0, 2), bundler).toEqual(["NATS", "HTTP"])
      expect(printed[bundler]?.[2], bundler).toMatch(/ECONNREFUSED|refused/)
    }
  })
})

const submit = async (url: string, meth: string, input: unknown): Promise<{ readonly result?: unknown }> => {
  const response = await fetch(`${url}/v1/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json", prefer: "wait=30" },
    body: JSON.stringify({ task: "text", meth, input }),
  })
  const answer: { readonly result?: unknown } = await response.json()
  return answer
}

describe("a service in one file", () => {
  const isWhole = async (transport: string, command: string, args: string[]) => {
    const { service, url } = await startService(transport, command, args, elsewhere)
    await using _service = service
    expect(await (await fetch(url, { headers: { accept: "text/html" } })).text()).toContain("<html")
    const alone = await submit(url, "alone", {})
    expect(alone).toMatchObject({ state: "succeeded", result: { argument: transport } })
    expect(alone.result).not.toMatchObject({ pid: service.pid })
    // Three leases and a half.
    expect(await submit(url, "block", { ms: 3_500 })).toMatchObject({ state: "succeeded", result: 1 })
    expect(await submit(url, "shout", { text: "again" })).toMatchObject({ result: "AGAIN" })
    service.kill("SIGTERM")
    expect(await service.closed).toEqual({ code: 0, signal: null })
    expect(service.output.match(/message=ready/g)).toHaveLength(1)
    expect(service.output).not.toMatch(/leases are extended by the main thread/)
  }

  test("a binary of bun build --compile keeps its leases and isolates handlers", { timeout: 120_000 }, async () => {
    const [build = ""] = shellBlock(installedBlocks.binary).split("\n")
    await run("sh", ["-ec", build.replace(/^bun /, `"${bun}" `)])
    const binary = join(elsewhere, "service")
    renameSync(join(project, "service"), binary)
    await using server = await startNats()
    await isWhole(`sqlite:${join(elsewhere, "binary.db")}?lease=1s`, binary, [])
    await isWhole(`${server.url}?lease=1s`, binary, [])
  })

  test("a bundle on Node 24 does so, too", { timeout: 120_000 }, async () => {
    await run("sh", ["-ec", shellBlock(installedBlocks.esbuild)])
    const bundle = join(elsewhere, "service.mjs")
    renameSync(join(project, "dist/service.mjs"), bundle)
    await isWhole(`sqlite:${join(elsewhere, "bundle.db")}?lease=1s`, findNode(), [bundle])
  })
})
