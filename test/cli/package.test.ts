/**
 * The package as users get it: packed, installed with npm into a folder elsewhere, and used there with nothing but its
 * own commands and entry points. The blocks of the documentation that install something are run here.
 */
import {
  cpSync,
  existsSync,
  globSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { delimiter, dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { gzipSync } from "node:zlib"
import { afterAll, beforeAll, expect, inject, test } from "vitest"
import { findRuntime } from "../../runtime/cli/runtimes.js"
import { startNats } from "../support/servers/nats.ts"
import { startPostgres } from "../support/servers/postgres.ts"
import {
  eventually,
  freePort,
  type Spawned,
  type SpawnOptions,
  searchPath,
  spawnProcess,
  temporaryFolder,
} from "../support/servers/process.ts"
import { findDeno, withDeno } from "../support/tools/deno.js"
import { findNode, OLDEST_NODE } from "../support/tools/node.js"
import { programFromNpm } from "../support/tools/npm-program.js"
import { exampleFiles, firstOf, installedBlocks, readPage, shellBlock } from "../support/tools/pages.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const folder = temporaryFolder()
const project = join(folder.path, "project")
afterAll(() => folder.remove())

/** Runs a program to its end, which must be a good one. */
const run = async (command: string, args: readonly string[], options: SpawnOptions = {}): Promise<string> => {
  await using child = spawnProcess(command, args, { cwd: project, ...options })
  const { code } = await child.closed
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${code}:\n${child.output}`)
  return child.stdout
}

const post = async (url: string, task: string, input: unknown): Promise<unknown> => {
  const response = await fetch(`${url}/v1/jobs`, {
    method: "POST",
    headers: { "content-type": "application/json", prefer: "wait=10" },
    body: JSON.stringify({ task, input }),
  })
  const answer: unknown = await response.json()
  return answer
}

/** npx is gone before what it started: the line comes when the process that was started first has ended. */
const saidThatItStopped = (dev: Spawned) =>
  eventually(() => dev.output.includes("stopped: 0 finished, 0 handed back"), {
    message: "it has not said that it stopped",
  })

/** Bun itself: the file that npm links to is empty where install scripts are switched off. */
const bun = () => findRuntime("bun")?.path ?? "bun"
/** The command without npx, which takes as long to start as the command itself. */
const callboard = join(project, "node_modules/.bin/callboard")

const { version, devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))

/** Runs lines of shell as npm would be used, without its questions to the registry beside the packages. */
const runShell = (lines: string, cwd: string): Promise<string> =>
  run("sh", ["-ec", lines], {
    cwd,
    env: { npm_config_audit: "false", npm_config_fund: "false", npm_config_prefer_offline: "true" },
  })

/** The block of the README from the checkout to `callboard dev`, up to a line. */
const untilLine = (block: string, line: string): string => block.slice(0, block.indexOf(line))

beforeAll(async () => {
  const block = untilLine(shellBlock(installedBlocks.project), "npx callboard init")
  // The other tests share the package that is packed.
  const packing = "npm pack --pack-destination ../my-tasks\n"
  expect(block).toContain(packing)
  const lines = block.replace(packing, `cp ${inject("tarball")} ../my-tasks\n`)
  await runShell(lines.replaceAll("../my-tasks", project).replace(/ bun$/m, ` bun@${devDependencies.bun}`), root)
}, 240_000)

/** Bytes on the disk of a folder, and of each package below its `node_modules`. */
const packageSizes = (folder: string): ReadonlyMap<string, number> => {
  const sizes = new Map<string, number>()
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    const [name = ""] = /^(?:@[^/]+\/)?[^/]+/.exec(relative(folder, path)) ?? []
    sizes.set(name, (sizes.get(name) ?? 0) + lstatSync(path).blocks * 512)
  }
  return sizes
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(2)} MB`

test("the weight of an installation, and of bundles of its parts", { timeout: 120_000 }, async () => {
  const modules = join(project, "node_modules")
  // Bun is installed for the tests.
  const sizes = [...packageSizes(modules)].filter(([name]) => !/^(\.|bun$|@oven\/)/.test(name))
  const total = sizes.reduce((sum, [, size]) => sum + size, 0)
  const lines = sizes.toSorted(([, a], [, b]) => b - a).map(([name, size]) => `  ${name} ${megabytes(size)}`)
  const { exports: published } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  const parts = Object.keys(published)
    .filter((name) => name !== "./package.json")
    .map((name) => `callboard${name.slice(1)}`)
  for (const part of parts) {
    const entry = join(project, "part.mjs")
    const bundle = join(project, "part.bundle.mjs")
    writeFileSync(entry, `export * from "${part}"\n`)
    await run(bun(), ["build", "--minify", "--target=node", `--outfile=${bundle}`, entry])
    const bytes = readFileSync(bundle)
    lines.push(`  ${part}: ${bytes.length / 1000} kB minified, ${gzipSync(bytes, { level: 9 }).length / 1000} kB gzip`)
  }
  console.log(`installed: ${megabytes(total)}\n${lines.join("\n")}`)
  const effect = sizes.find(([name]) => name === "effect")?.[1] ?? 0
  expect(total - effect).toBeLessThan(24e6)
  const names = sizes.map(([name]) => name)
  for (const optional of ["pg", "redis", "amqplib"]) expect(names).not.toContain(optional)
})

test("the declarations need no optional package", { timeout: 120_000 }, async () => {
  const folder = join(project, "declarations")
  mkdirSync(folder)
  const { exports: published } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  const parts = Object.keys(published).filter((name) => !/package\.json|plugins\/(postgres|redis|amqp)$/.test(name))
  const lines = parts.map((name, index) => `export type * as part${index} from "callboard${name.slice(1)}"`)
  writeFileSync(join(folder, "all.ts"), lines.join("\n"))
  const options = { target: "ES2024", module: "nodenext", strict: true, noEmit: true, skipLibCheck: false, types: [] }
  const compilerOptions = { ...options, lib: ["ES2024", "DOM", "ESNext.Disposable"] }
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["all.ts"] }))
  const compiler = [join(root, "node_modules/typescript/bin/tsc"), "--project", folder, "--listFiles"]
  // OpenTelemetry is installed here because prom-client needs it, so the types that were read are looked at.
  expect(await run(process.execPath, compiler)).not.toMatch(/node_modules\/(@opentelemetry|pg|redis|amqplib)\//)
})

/** Compilers of users: TypeScript before it was rewritten, and that of this repository. */
const compilers = {
  "5.9": () => programFromNpm("typescript", "5.9.3", "typescript/bin/tsc"),
  "7": () => join(root, "node_modules/typescript/bin/tsc"),
}

/** What a page and a server may each have: the types of a browser, or those of Node. */
const surroundings = {
  "a page": { lib: ["ES2024", "ESNext.Disposable", "DOM"], types: [] },
  "a program on Node": {
    lib: ["ES2024", "ESNext.Disposable"],
    types: ["node"],
    typeRoots: [join(root, "node_modules/@types")],
  },
}

const TYPED = {
  "text.ts": `
import { actor } from "callboard"
export default actor("text", {
  methods: { count: ({ text }: { text: string }) => ({ words: text.split(" ").length, at: new Date() }) },
})
`,
  "page.ts": `
import { connectHttp, httpBoard, isCallboardError } from "callboard/http"
import type text from "./text.ts"
const client = connectHttp("/callboard", { token: "secret" })
export const count = async (stopped: AbortController): Promise<number> => {
  const job = await client.actor<typeof text>("text").count.submit({ text: "to be" }, { delay: "1 second" })
  for await (const event of job.events({ signal: stopped.signal }))
    if (event.type === "transition") event.state satisfies string
  await httpBoard(client, "print").count()
  try {
    const { words, at } = await job.result({ timeout: "30 seconds" })
    // @ts-expect-error: a number
    words satisfies string
    at.getTime()
    return words
  } catch (error) {
    if (isCallboardError(error)) error.code satisfies string
    throw error
  }
}
export const wrong = () =>
  // @ts-expect-error: a field that the method does not take
  client.actor<typeof text>("text").count.submit({ txt: "to be" })
`,
}

test.each(Object.entries(compilers))(
  "TypeScript %s checks callboard/http with the types of an actor",
  {
    timeout: 240_000,
  },
  async (name, find) => {
    const compiler = find() ?? "TypeScript, which npm could not fetch"
    for (const [place, given] of Object.entries(surroundings)) {
      const folder = join(project, `types-${name}-${place.replaceAll(" ", "-")}`)
      mkdirSync(folder)
      for (const [file, text] of Object.entries(TYPED)) writeFileSync(join(folder, file), text)
      const options = { target: "ES2024", module: "nodenext", strict: true, noEmit: true, skipLibCheck: false }
      const compilerOptions = { ...options, allowImportingTsExtensions: true, ...given }
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["page.ts"] }))
      await using child = spawnProcess(findNode(), [compiler, "--project", folder, "--listFiles"], { cwd: project })
      await child.closed
      expect(child.output).toMatch(/\/page\.ts$/m)
      expect(/@types\/node\//.test(child.output), place).toBe(given.types.length > 0)
      // Effect's own declarations of cryptography take types from the browser's.
      const faults = child.output.match(/^.*\berror TS\d+:.*$/gm) ?? []
      expect(faults.filter((fault) => !fault.startsWith("node_modules/effect/"))).toEqual([])
    }
  },
)

test("init, dev, a task over HTTP, an edit, a stop", { timeout: 60_000 }, async () => {
  expect(shellBlock(installedBlocks.project)).toMatch(/\nnpx callboard init\nnpx callboard dev\n$/)
  await run("npx", ["callboard", "init"])
  // The types come from the package: its declarations alone, checked as a user's editor would.
  await run(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), "--project", project])
  const port = await freePort()
  await using dev = spawnProcess("npx", ["callboard", "dev", "--port", String(port)], { cwd: project })
  const [, curl = ""] = await dev.waitForLine(/^ {2}(curl .*)$/)
  expect(dev.stdout).toMatch(/actors +hello: greet, count/)
  expect(JSON.parse(await run("sh", ["-c", curl]))).toMatchObject({ state: "succeeded", result: "Hello, world!" })
  const url = `http://127.0.0.1:${port}`
  expect(await post(url, "hello.greet", { name: "Ada" })).toMatchObject({ result: "Hello, Ada!" })
  const actor = join(project, "actors/hello.ts")
  writeFileSync(actor, readFileSync(actor, "utf8").replace("Hello, ", "Ahoy, "))
  await dev.waitForLine(/^reloaded: hello$/)
  await eventually(async () => expect(await post(url, "hello.greet", {})).toMatchObject({ result: "Ahoy, world!" }))
  expect(await run(callboard, ["submit", "hello.count", '{"to":2}', "--wait"])).toBe('{"counted":2}\n')
  expect(await run(callboard, ["jobs"])).toMatch(/succeeded +hello\.count/)
  // To the whole group, as a terminal and a service manager do: npx itself passes nothing on.
  dev.killGroup("SIGTERM")
  await saidThatItStopped(dev)
  await eventually(
    () =>
      fetch(url).then(
        () => false,
        () => true,
      ),
    { message: "it still answers" },
  )
})

test("the launcher alone passes a signal on, and ends with the exit code of the work", async () => {
  await using dev = spawnProcess(callboard, ["dev", "--port", String(await freePort())], { cwd: project })
  await dev.waitForLine(/^ {2}curl /)
  dev.kill("SIGTERM")
  expect(await dev.exited).toEqual({ code: 0, signal: null })
})

test("the same actors run on Deno", { timeout: 120_000 }, async () => {
  const env = { ...withDeno(findDeno()), CALLBOARD_RUNTIME: "deno" }
  const port = await freePort()
  await using dev = spawnProcess(callboard, ["dev", "--port", String(port)], { cwd: project, env })
  await dev.waitForLine(/^callboard .* on Deno \d/)
  await dev.waitForLine(/^ {2}curl /)
  expect(await post(`http://127.0.0.1:${port}`, "hello.greet", {})).toMatchObject({ result: "Ahoy, world!" })
  // Deno warns about a behaviour that nothing here relies on, unless a flag turns it off.
  expect(dev.output).not.toMatch(/legacy/)
  dev.killGroup("SIGTERM")
  await saidThatItStopped(dev)
})

/** A folder for PATH with these programs alone, by their names. */
const pathWith = (programs: Readonly<Record<string, string>>): string => {
  const path = join(folder.path, `path-with-${Object.keys(programs).join("-")}`)
  mkdirSync(path)
  for (const [name, program] of Object.entries(programs)) symlinkSync(program, join(path, name))
  return path
}

const installed = (name: string): string => {
  const found = searchPath.split(delimiter).find((folder) => existsSync(join(folder, name)))
  if (found === undefined) throw new Error(`${name} is not on PATH`)
  return join(found, name)
}

const alone = [
  {
    runtime: "Node",
    programs: () => ({ node: findNode(), npm: installed("npm"), npx: installed("npx"), sh: installed("sh") }),
    install: ["npm", "install"],
    start: "npx",
  },
  {
    runtime: "Bun",
    programs: () => ({ bun: bun(), bunx: bun(), sh: installed("sh") }),
    install: ["bun", "add"],
    start: "bunx",
  },
]

test.each(alone)("a first project with $runtime alone", { timeout: 120_000 }, async (given) => {
  const { runtime, programs, install, start } = given
  const own = join(folder.path, `alone-${runtime}`)
  mkdirSync(own)
  const PATH = pathWith(programs())
  // npm names its own Node in the environment of its scripts, and Bun then expects a `node` on PATH and offers none of its own.
  const ofNpm = { npm_config_user_agent: undefined, npm_node_execpath: undefined, NODE: undefined }
  const env = { ...ofNpm, PATH, npm_config_prefer_offline: "true" }
  const [installer = "", ...args] = install
  await run(join(PATH, installer), [...args, inject("tarball")], { cwd: own, env })
  expect(await run(join(PATH, start), ["callboard", "init"], { cwd: own, env })).toContain(
    `Next:  ${start} callboard dev\n`,
  )
  const port = await freePort()
  await using dev = spawnProcess(join(PATH, start), ["callboard", "dev", "--port", String(port)], { cwd: own, env })
  await dev.waitForLine(new RegExp(`^callboard .* on ${runtime} \\d`))
  await dev.waitForLine(/^ {2}curl /)
  expect(await post(`http://127.0.0.1:${port}`, "hello.greet", {})).toMatchObject({ result: "Hello, world!" })
  dev.killGroup("SIGTERM")
  await saidThatItStopped(dev)
})

test("a service of one's own, with the types of the package", async () => {
  const service = `
import { actor, connect, serve } from "callboard"
const text = actor("text", { methods: { shout: async ({ text }: { text: string }) => text.toUpperCase() } })
await using service = await serve({ transport: "sqlite:own.db", actors: [text], signals: false, logLevel: "none" })
await using client = await connect("sqlite:own.db")
const job = await client.actor<typeof text>("text").shout.submit({ text: "hi" })
const result: string = await job.result({ timeout: "10 seconds" })
console.log(result)
`
  writeFileSync(join(project, "service.ts"), service)
  expect(await run(bun(), ["service.ts"])).toBe("HI\n")
  expect(await run(findDeno(), ["run", "-A", "service.ts"])).toBe("HI\n")
})

test("a container: what its Dockerfile copies and runs", { timeout: 120_000 }, async () => {
  const { text } = firstOf(readPage("docs/operations.md"), "dockerfile")
  const app = join(folder.path, "app")
  mkdirSync(app)
  const steps = [...text.matchAll(/^(\w+) (.*)$/gm)].map(([, name = "", rest = ""]) => ({ name, rest }))
  for (const { name, rest } of steps) {
    if (name === "COPY" && rest !== ". .") {
      for (const file of globSync(rest.split(" ").slice(0, -1), { cwd: project }))
        cpSync(join(project, file), join(app, file))
    } else if (name === "COPY") cpSync(join(project, "actors"), join(app, "actors"), { recursive: true })
    else if (name === "RUN") await runShell(rest, app)
  }
  expect(steps.map(({ name }) => name)).toEqual(["FROM", "WORKDIR", "COPY", "RUN", "COPY", "CMD"])
  await using server = await startNats()
  const [command, ...args]: ReadonlyArray<string> = JSON.parse(steps.at(-1)?.rest ?? "")
  const here = args.map((arg) => arg.replace("nats://nats", server.url))
  await using worker = spawnProcess(join(app, command ?? ""), here, { cwd: app })
  await worker.waitForLine(/message=ready/)
  // A container is stopped by a signal to its first process alone.
  worker.kill("SIGTERM")
  expect(await worker.exited).toEqual({ code: 0, signal: null })
})

/** The address that the pages give to PostgreSQL. */
const written = /postgres:\/\/user:password@localhost\/\w+/

test("a worker over PostgreSQL, and a transport of one's own, as the pages set them up", {
  timeout: 240_000,
}, async () => {
  await using server = await startPostgres()
  const block = shellBlock(installedBlocks.postgres)
  await runShell(untilLine(block, "npx callboard worker"), project)
  const [, command = ""] = /^npx (callboard worker .*)$/m.exec(block.replace(written, server.url)) ?? []
  await using worker = spawnProcess("npx", command.split(" "), { cwd: project })
  await worker.waitForLine(/message=ready/)
  worker.killGroup("SIGTERM")
  await worker.closed

  const tarball = join(folder.path, "project", `callboard-${version}.tgz`)
  await runShell(shellBlock(installedBlocks.transport).replace("../callboard-0.1.0.tgz", tarball), folder.path)
  const mine = join(folder.path, "callboard-transport-mine")
  // The guide goes through the four files of this driver; outside of the repository they know the contract by its name.
  for (const name of ["mod", "driver", "link", "schema"]) {
    const text = readFileSync(join(root, `plugins/postgres/${name}.ts`), "utf8")
    writeFileSync(
      join(mine, `${name}.ts`),
      text.replaceAll(/"[./]+\/runtime\/transport\/[\w-]+\.ts"/g, '"callboard/transport"'),
    )
  }
  writeFileSync(join(mine, "kit.ts"), exampleFiles().get("kit.ts") ?? "")
  const [, ...args] = shellBlock(installedBlocks.kit).trim().replace(written, server.url).split(" ")
  // All cases run over this driver in the test of its plugin.
  expect(await run(bun(), [...args, "publish"], { cwd: mine })).toMatch(/^\d{2,} passed, 0 failed, \d+ skipped\n$/)
})

/** The last Node without zstd. */
const OLD_NODE = "22.14.0"

test("the command and clients run on old Nodes, over nats and HTTP; a worker says what it needs", async () => {
  const nodes = [OLDEST_NODE, OLD_NODE].map((old) => ({ old, node: findNode(old) }))
  await using server = await startNats()
  const [port, closedPort] = [await freePort(), await freePort()]
  const shout = `
import { actor, serve } from "callboard"
export const text = actor("text", { methods: { shout: async ({ text }: { text: string }) => text.toUpperCase() } })
await serve({ transport: "${server.url}", actors: [text], http: { port: ${port}, tokens: [{ token: "secret", scopes: ["submit", "read", "admin"] }] } })
`
  writeFileSync(join(project, "shout.ts"), shout)
  await using worker = spawnProcess(bun(), ["shout.ts"], { cwd: project })
  const submit = `
import { connect } from "callboard/client"
const client = await connect("${server.url}")
const [job] = await client.actor("text").shout.submitMany([{ text: process.version }])
console.log(await job.result({ timeout: "10 seconds" }), (await job.find()).state, (await client.control("stats")).length)
await client.pause("other")
await client.close()
`
  writeFileSync(join(project, "submit.mjs"), submit)
  for (const { old, node } of nodes) expect(await run(node, ["submit.mjs"])).toBe(`V${old} succeeded 1\n`)
  const posting = `
import { connectHttp } from "callboard/client"
const client = connectHttp("http://127.0.0.1:${port}", { token: "secret" })
const job = await client.submit("text", { meth: "shout", input: { text: process.version } })
console.log(await job.result({ timeout: "10 seconds" }), (await job.find()).state)
const again = await client.submit("text", { meth: "shout", input: { text: process.version }, id: job.id })
console.log(again.receipt.duplicate)
const board = client.board("builds")
await board.post("compile")
const claim = await board.take("me", { wait: "10s" })
console.log((await claim.consume()).state, await board.count())
console.log((await client.schedules.create("yearly-" + process.version.slice(1, 3), { cron: "@yearly", task: "text", meth: "shout" })).state)
await connectHttp("http://127.0.0.1:${port}").submit("text").catch(({ code }) => console.log(code))
await connectHttp("http://127.0.0.1:${closedPort}").submit("text").catch(({ details }) => console.log(details.outcome))
`
  writeFileSync(join(project, "posting.mjs"), posting)
  for (const { old, node } of nodes)
    expect(await run(node, ["posting.mjs"])).toBe(`V${old} succeeded\ntrue\nCOMPLETE 0\nactive\nunauthorized\nnone\n`)
  worker.kill("SIGTERM")
  await worker.closed
  const tried = `
import { actor, serve } from "callboard"
await serve({ transport: "memory:", actors: [actor("text", { methods: { run: () => 1 } })] }).catch((error) => {
  console.log(error.message)
})
`
  writeFileSync(join(project, "tried.mjs"), tried)
  for (const { old, node } of nodes) {
    const start = `a worker needs Bun, Deno, or Node 24 or newer, but this is Node v${old}: start it with \`bun run\``
    expect((await run(node, ["tried.mjs"])).startsWith(start)).toBe(true)
    // The launcher finds the Bun of the project.
    expect(await run(node, [callboard, "--version"])).toBe(`${version}\n`)
  }
  const packed = `
import { compress, decompress } from "./node_modules/callboard/dist/runtime/protocol/codec/compression.js"
for (const { failure } of [compress(new Uint8Array(9), "zstd"), decompress(new Uint8Array(9), "application/zstd", 9)])
  console.log(failure.reason, failure.message)
`
  writeFileSync(join(project, "packed.mjs"), packed)
  const missing = "unsupported-compression Compression with zstd needs Bun, Deno, or Node 22.15 or newer."
  expect(await run(findNode(OLD_NODE), ["packed.mjs"])).toBe(`${missing}\n${missing}\n`)
}, 120_000)

/** A package as its author publishes it: it knows `callboard/transport` and nothing else of this repository. */
const installTiny = () => {
  const target = join(project, "node_modules/callboard-transport-tiny")
  cpSync(join(dirname(fileURLToPath(import.meta.url)), "tiny"), target, { recursive: true })
  // Its driver lies beside it there, and knows the contract by the name of the package.
  const copy = (from: string, to: string, change: (text: string) => string) =>
    writeFileSync(join(target, to), change(readFileSync(from, "utf8")))
  copy(join(target, "plugin.ts"), "plugin.ts", (text) =>
    text.replace("../../kit/driver/least-driver.ts", "./least-driver.ts"),
  )
  copy(join(root, "test/kit/driver/least-driver.ts"), "least-driver.ts", (text) =>
    text.replace(/"[./]+\/runtime\/transport\/\w+\.ts"/g, '"callboard/transport"'),
  )
  const manifest = { name: "callboard-transport-tiny", version: "1.0.0", type: "module", exports: "./plugin.ts" }
  writeFileSync(join(target, "package.json"), JSON.stringify(manifest))
  return target
}

test("a transport in a package of its own runs the conformance kit of the package", { timeout: 60_000 }, async () => {
  const target = installTiny()
  const report = JSON.parse(await run(bun(), ["check.ts"], { cwd: target }))
  expect(report).toMatchObject({ name: "tiny", failed: 0, results: [] })
  expect(report.passed).toBeGreaterThan(40)
  await using broken = spawnProcess(bun(), ["check.ts", "--forgets-acks"], { cwd: target })
  expect((await broken.closed).code).toBe(1)
  const found = JSON.parse(broken.stdout).results.map(({ title }: { title: string }) => title)
  expect(found).toContain("commit: what was acked never comes again")
})

test("a transport is found by the name of its package, also by fetchBoard, and needs nothing optional", async () => {
  installTiny()
  await using doctor = spawnProcess(callboard, ["doctor", "--transport", "tiny://here"], { cwd: project })
  expect((await doctor.closed).code).toBe(0)
  const script = `import { fetchBoard } from "callboard"
await using board = fetchBoard("builds", "tiny://here")
await board.connect()
await board.post("one")
console.log(await board.count(), (() => { try { fetchBoard("builds", "huge://here") } catch (error) { return error.code } })())`
  writeFileSync(join(project, "outside-board.mjs"), script)
  expect(await run(bun(), ["outside-board.mjs"])).toBe("1 not-found\n")
  await using unknown = spawnProcess(callboard, ["jobs", "--transport", "huge://here"], { cwd: project })
  expect((await unknown.closed).code).toBe(2)
  expect(unknown.stderr).toMatch(/transports\.huge in callboard\.config\.ts, or install callboard-transport-huge/)
})
