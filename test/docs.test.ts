/** The documentation is true: its examples run, and the commands, options, routes and code that it names exist. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join, normalize } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { connect, http } from "callboard"
import { plugin as sqlite } from "callboard/plugins/sqlite"
import type { Command } from "commander"
import { Result } from "effect"
import { expect, test } from "vitest"
import { parse } from "yaml"
import { readConfig } from "../plugins/nats/connection/config.ts"
import { ACTOR_OPTIONS, METHOD_OPTIONS } from "../runtime/actor/options.ts"
import { makeProgram } from "../runtime/cli/program.ts"
import { SETTINGS } from "../runtime/config/settings.ts"
import { PROBLEMS } from "../runtime/http/response.ts"
import { decodeEnvelope, encodeEnvelope } from "../runtime/protocol/envelope.ts"
import { isUndecodable } from "../runtime/protocol/message.ts"
import { makeExamples, surroundings } from "./cli/examples.ts"
import type { Project } from "./cli/project.ts"
import { natsProgram } from "./support/servers/nats-program.ts"
import { eventually, freePort, type Spawned, spawnProcess, spawnScript } from "./support/servers/process.ts"
import type { Exports } from "./support/tools/exports.ts"
import {
  anchorsOf,
  celeryBlocks,
  exampleFiles,
  firstOf,
  installedBlocks,
  pages,
  readPage,
  shellBlock,
} from "./support/tools/pages.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const read = (path: string): string => readFileSync(join(root, path), "utf8")

const pageOf = (path: string) => {
  const page = pages.find((each) => each.path === path)
  if (page === undefined) throw new Error(`there is no page ${path}`)
  return page
}

const everything = pages.map(({ text }) => text).join("\n")

// ── Examples ────────────────────────────────────────────────────────────────────────────────────────────────────────

const examples = Object.fromEntries(exampleFiles())

/** The examples that run beside `callboard dev` and end by themselves, with what they print; `ID` stands for any id. */
const scripts: Readonly<Record<string, ReadonlyArray<string>>> = {
  "submit.ts": [
    ...["ID fsync", "10", "there is no caviar", "2 SUCCESSFUL, 1 SUCCESSFUL", "scheduled", "true succeeded"],
    ...["2", "1 undefined 1", "cancelled"],
  ],
  "at-once.ts": ["succeeded 4"],
  "primes.ts": ["cancelled"],
  "retries.ts": ["queued ", "started ", "scheduled retry", "started ", "succeeded "],
  "travel.ts": [
    "{",
    '  seat: "12A",',
    '  rooms: [ "room 1", "room 2" ],',
    "  attempts: 2,",
    "}",
    "failed true no such place",
  ],
  "approve.ts": ["tea for Ada"],
  "rent.ts": ["server with a disk in us"],
  "purchase.ts": [
    "{",
    '  parcel: "parcel from shelf 2",',
    '  payment: "10 from visa",',
    "  total: 10,",
    '  place: "shelf 2",',
    "}",
  ],
  "schedules.ts": ["{", "  total: 10,", "}", "1"],
  "follow-ups.ts": [],
  "after.ts": ["deferred"],
  "chord.ts": ["4"],
  "groups.ts": ["4", "2 2"],
  "shipped.ts": ["17"],
  "durability.ts": ["process"],
  "from-bullmq.ts": ["welcome, Ada"],
  "from-rq.ts": ["invoice A3, 2 copies", "succeeded 2 SUCCESSFUL"],
  "from-taskflow.ts": ["server 7 with 20 GB in us", "running_start", "running_end", "job_consumed"],
  "wire.ts": [],
  "boards.ts": ["UNCLAIMED 1", "compile 4f2a builder-1", "posted, claimed, consumed"],
  "choosing.ts": ["claimed test"],
  "takeover.ts": ["1 null"],
  "conducting.ts": ["running_start order 17", "running_end order 17", "job_consumed order 17", 'COMPLETE {"total":10}'],
  "links.ts": ["{", '  url: "/reports/acme.pdf",', "}", "this token lacks the scope operate"],
  "fetched.ts": ["0 true", '{"username":"u","host":"h","port":5,"ns":"b","driver":"redis"}', "builds, on paper"],
}

/** The examples that have a test of their own below, and the configuration, which `callboard dev` reads. */
const others = [
  "among-celery.ts",
  "call-python.ts",
  "service.ts",
  "remote.ts",
  "over-http.ts",
  "app.ts",
  "logged.ts",
  "traced.ts",
  "orders.test.ts",
  "travel.test.ts",
  "callboard.config.ts",
]

/** Blocks of shell that no test runs, by their first line, with the reason. */
const notRun: Readonly<Record<string, string>> = {
  "npm install && npm run demo":
    "installs the checkout and runs all tests, this one too; the demo has a test of its own",
  "npm install redis": "the transport has tests of its own, in a stage that fetches its server",
  "npm install amqplib": "the transport has tests of its own, in a stage that fetches its server",
}

/** Blocks of shell that start servers, by their first line: tests of their own below start them. */
const servers = [
  "npx callboard worker -Q high,default -c 8 -n worker-1",
  "export TOKEN=$(openssl rand -hex 32)",
  "nats-server --config nats.conf",
  "export OPERATOR_PASSWORD=… WORKER_PASSWORD=… SUBMITTER_PASSWORD=… READER_PASSWORD=…",
  "npx callboard doctor --transport nats://operator:…@host",
  "npx callboard worker --transport nats://localhost -n worker-1",
  `npx callboard submit hello.count '{"to": 100}' --transport nats://localhost`,
] as const

const runElsewhere = [
  ...Object.keys(notRun),
  ...servers,
  ...[installedBlocks, celeryBlocks].flatMap((blocks) =>
    Object.values(blocks).map((text) => text.split("\n")[0] ?? ""),
  ),
]

const shell = pages.flatMap(({ path, blocks }) =>
  blocks
    .filter(({ language }) => language === "sh")
    .map(({ text }) => ({ path, text, first: text.split("\n")[0] ?? "" })),
)

const ended = async (child: Spawned) => ({ ...(await child.closed), output: child.output })

test("every example is run, or named as one that is not", () => {
  const run = [...Object.keys(scripts), ...others, ...Object.keys(examples).filter((file) => /^actors\//.test(file))]
  // The example of the kit runs with the installed package, see `installedBlocks`.
  expect(Object.keys(examples).toSorted()).toEqual([...run, "kit.ts"].toSorted())
  expect(shell.map(({ first }) => first)).toEqual(expect.arrayContaining(runElsewhere))
  const languages = new Set(pages.flatMap(({ blocks }) => blocks.map(({ language }) => language)))
  expect([...languages].toSorted()).toEqual([
    "conf",
    "dockerfile",
    "js",
    "json",
    "python",
    "sh",
    "sql",
    "text",
    "ts",
    "yaml",
  ])
})

/** Runs the scripts one after the other in one process: to start the runtime for each of them would take longer. */
const runScripts = async (project: Project): Promise<Readonly<Record<string, ReadonlyArray<string>>>> => {
  project.write(
    "run.ts",
    `for (const name of ${JSON.stringify(Object.keys(scripts))}) {\n  console.log("==", name)\n  await import(\`./\${name}\`)\n}\n`,
  )
  await using run = spawnScript(join(project.path, "run.ts"), [], { cwd: project.path })
  const { code, output } = await ended(run)
  expect({ code, output }).toMatchObject({ code: 0 })
  const parts = output.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID").split(/^== (\S+)\n/m)
  return Object.fromEntries(
    Object.keys(scripts).map((name) => {
      const lines = (parts[parts.indexOf(name) + 1] ?? "").split("\n")
      return [name, lines.slice(0, -1)]
    }),
  )
}

/** Makes `npx callboard` in a shell run the sources. */
const npx = `npx() { shift; '${process.execPath}' run '${join(root, "runtime/cli/launcher.js")}' "$@"; }\n`

/** Runs blocks of shell as they are pasted, in one shell per page. */
const runShell = async (project: Project, port: string): Promise<string> => {
  const pasted = shell
    .filter(({ first }) => !runElsewhere.includes(first))
    // The first block of the README has a test of its own.
    .filter(({ text }) => text !== firstOf(pageOf("README.md"), "sh").text)
    .map(
      ({ path, text }) =>
        `echo "== ${path}"\n${text.replaceAll("7420", port).replaceAll("curl -s", "curl -sS --fail")}\necho`,
    )
  await using run = spawnProcess("sh", ["-c", `set -e\n${npx}${pasted.join("\n")}`], { cwd: project.path })
  const { code, output } = await ended(run)
  expect({ code, output }).toMatchObject({ code: 0 })
  return output
}

test("the examples run against callboard dev", { timeout: 180_000 }, async () => {
  const port = `${await freePort()}`
  using project = makeExamples({ ...surroundings, ...examples })
  for (const file of ["remote.ts", "over-http.ts"]) project.write(file, (examples[file] ?? "").replace("7420", port))
  await using dev = project.start("dev", "--port", port)
  await dev.waitForLine(/orders: total, deliver, receipt, apologise, cheapest$/)
  expect(await runScripts(project)).toEqual(scripts)
  await dev.waitForLine(/succeeded {2}orders\.receipt/)
  await using remote = spawnScript(join(project.path, "remote.ts"), [], { cwd: project.path })
  expect(await ended(remote)).toEqual({ code: 0, signal: null, output: "{\n  total: 10,\n}\n" })
  await using overHttp = spawnScript(join(project.path, "over-http.ts"), [], { cwd: project.path })
  expect(await ended(overHttp)).toMatchObject({ code: 0, output: "queued\nstarted\nsucceeded\n10\n" })
  expect(await project.json("submit", "primes.count", '{"below": 100}', "--wait")).toMatchObject({
    result: { found: 25 },
  })
  const output = await runShell(project, port)
  expect(output).toContain('{"words":6}')
  expect(output).toMatch(/^builder-\d+ has built [0-9a-f-]{36}-2-/m)
  expect(output).toContain('"sent for acme"')
  expect(output).toContain('"invoice A1, 2 copies"')
  expect(output).toMatch(/"id":"invoice-A2","state":"succeeded".*"invoice A2, 2 copies"/)
  expect(output).toMatch(/^queue high 0, 0 executing, \d finished, 0 failed$/m)
  expect(output).toContain("0 match, 0 can run again")
  expect(output).toMatch(/"state":"succeeded".*"result":5\b/)
  expect(await messageOf(project, "wire.db", "order-1")).toEqual(
    JSON.parse(firstOf(pageOf("docs/protocol.md"), "json").text),
  )
})

/** The message of a job that waits, with a fixed time and id where those differ each time. */
const messageOf = async (project: Project, file: string, id: string): Promise<unknown> => {
  const url = new URL(pathToFileURL(join(project.path, file)).href.replace("file:", "sqlite:"))
  const options = { namespace: "callboard", lease: 30_000, heartbeat: 0, name: "docs", timeout: 5_000 }
  const driver = await sqlite.connect(url, options)
  try {
    const [known] = await driver.read([id], "all")
    const content = known?.task?.content
    const message = content instanceof Uint8Array ? decodeEnvelope(content) : content
    if (message === undefined || isUndecodable(message)) throw new Error(`there is no message of ${id}`)
    const text = JSON.stringify({ ...message, body: JSON.parse(new TextDecoder().decode(message.body)) })
    return JSON.parse(
      text
        .replace(/"submittedAt":\d+/, '"submittedAt":1893456000000')
        .replace(/"origin":"[^"]*"/, '"origin":"callboard@host"'),
    )
  } finally {
    await driver.close()
  }
}

/** Starts a command of a page on a free port, since the port that the page names may be taken. */
const startPasted = async (project: Project, text: string) => {
  const port = await freePort()
  const server = spawnProcess("sh", ["-c", npx + text], { cwd: project.path, env: { CALLBOARD_HTTP_PORT: `${port}` } })
  return { server, url: `http://127.0.0.1:${port}` }
}

const answers = (url: string, headers: Readonly<Record<string, string>> = {}): Promise<number> =>
  fetch(url, { headers }).then(
    ({ status }) => status,
    () => 0,
  )

const linesOf = (first: (typeof servers)[number]): ReadonlyArray<string> => shellBlock(first).trimEnd().split("\n")

interface Listed {
  readonly workers: ReadonlyArray<{ readonly name: string; readonly queues: ReadonlyArray<string> }>
}

test("the worker and HTTP of the page about operations, and HTTP with a token", { timeout: 120_000 }, async () => {
  using project = makeExamples(surroundings)
  const [work = "", answer = ""] = linesOf("npx callboard worker -Q high,default -c 8 -n worker-1")
  const worker = await startPasted(project, work)
  await using _worker = worker.server
  const serve = await startPasted(project, answer)
  await using _serve = serve.server
  await eventually(async () => (await answers(`${serve.url}/readyz`)) === 200, { message: "it serves" })
  await worker.server.waitForLine(/message=ready/)
  const { workers } = await project.json<Listed>("workers")
  expect(workers).toMatchObject([{ name: "worker-1", queues: ["high", "default"], concurrency: 8 }])

  const [make = "", guarded = ""] = linesOf("export TOKEN=$(openssl rand -hex 32)")
  const tokens = await startPasted(project, `${make}\necho "token: $TOKEN"\n${guarded}`)
  await using _tokens = tokens.server
  const [, token = ""] = await tokens.server.waitForLine(/^token: ([0-9a-f]{64})$/)
  const authorization = `Bearer ${token}`
  await eventually(async () => (await answers(`${tokens.url}/v1/queues`, { authorization })) === 200, {
    message: "it serves",
  })
  expect(await answers(`${tokens.url}/v1/queues`)).toBe(401)
  // The request that the page's configuration makes Prometheus send: to `/metrics` with a Bearer token, which are its defaults.
  expect(await answers(`${tokens.url}/metrics`, { authorization })).toBe(200)
  expect(await answers(`${tokens.url}/metrics`)).toBe(401)
})

test("NATS with the configuration of the page, two workers and HTTP", { timeout: 120_000 }, async () => {
  using project = makeExamples(surroundings)
  project.write("nats.conf", firstOf(pageOf("docs/transports.md"), "conf").text)
  const { path } = await natsProgram()
  const begin = shellBlock("nats-server --config nats.conf").trim().replace("nats-server", path)
  await using check = spawnProcess("sh", ["-c", `${begin} -t`], { cwd: project.path })
  expect(await ended(check)).toMatchObject({ code: 0, output: expect.stringContaining("is valid") })
  const port = await freePort()
  // The command of the page, on a free port and on loopback only.
  await using nats = spawnProcess("sh", ["-c", `exec ${begin} --addr 127.0.0.1 --port ${port}`], { cwd: project.path })
  await nats.waitForLine(/Server is ready/)
  expect(nats.output).toMatch(/Store Directory: +".*jetstream"/)
  const here = (text: string) => text.replaceAll("nats://localhost", `nats://127.0.0.1:${port}`)

  await using started = new AsyncDisposableStack()
  for (const line of linesOf("npx callboard worker --transport nats://localhost -n worker-1")) {
    const { server, url } = await startPasted(project, here(line))
    started.use(server)
    if (line.includes(" serve ")) await eventually(async () => (await answers(`${url}/readyz`)) === 200)
    else await server.waitForLine(/message=ready/)
  }
  const asked = here(shellBlock(`npx callboard submit hello.count '{"to": 100}' --transport nats://localhost`))
  await using pasted = spawnProcess("sh", ["-ec", npx + asked], { cwd: project.path })
  const { code, output } = await ended(pasted)
  expect({ code, output }).toMatchObject({ code: 0 })
  expect(output).toMatch(/^hello\.count: queued \(durability: server\)$/m)
  expect(output).toMatch(/^worker-1 .*\n^worker-2 /m)
})

test("the configuration for Prometheus has its fields, and the port that a worker answers on", () => {
  const { text } = firstOf(pageOf("docs/operations.md"), "yaml")
  expect(parse(text)).toEqual({
    scrape_configs: [
      {
        job_name: "callboard",
        authorization: { credentials: expect.any(String) },
        static_configs: [{ targets: ["worker-1:7420", "worker-2:7420"] }],
      },
    ],
  })
  expect(SETTINGS.find(({ path }) => path === "http.port")?.default).toBe("7420")
})

test("an envelope has the layout that the page about the protocol shows", () => {
  const { text } = firstOf(pageOf("docs/protocol.md"), "text")
  expect(text).toContain("byte 0      1…4                 5…8               9…")
  const message = {
    headers: { lang: "ts" },
    properties: { content_type: "application/json", content_encoding: "utf-8" },
    body: new Uint8Array([1, 2, 3]),
  }
  const bytes = Result.getOrThrow(encodeEnvelope(message))
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const [version, head, body] = [view.getUint8(0), view.getUint32(1), view.getUint32(5)]
  expect({ version, body, length: bytes.length }).toEqual({ version: 1, body: 3, length: 9 + head + 3 })
  expect(JSON.parse(new TextDecoder().decode(bytes.subarray(9, 9 + head)))).toEqual([
    message.headers,
    message.properties,
  ])
  expect(bytes.subarray(9 + head)).toEqual(message.body)
})

test("the mounted example asks for its token, and does not start without one", async () => {
  using project = makeExamples(examples)
  const port = await freePort()
  project.write("app.ts", (examples["app.ts"] ?? "").replace("3000", `${port}`))
  mkdirSync(join(project.path, ".callboard"), { recursive: true })
  const app = join(project.path, "app.ts")
  await using refused = spawnScript(app, [], { cwd: project.path, env: { TOKEN: "" } })
  expect(await ended(refused)).toMatchObject({ code: 1, output: expect.stringContaining("http.tokens[0]") })
  await using serving = spawnScript(app, [], { cwd: project.path, env: { TOKEN: "secret" } })
  const ask = (headers: Readonly<Record<string, string>>) =>
    fetch(`http://localhost:${port}/board/v1/queues`, { headers }).then(
      ({ status }) => status,
      () => serving.output,
    )
  await eventually(async () => (await ask({ authorization: "Bearer secret" })) === 200, { message: "it serves" })
  expect(await ask({})).toBe(401)
})

test("the services with a log of their own, and with traces, say what they run", async () => {
  using project = makeExamples({ ...surroundings, ...examples })
  await using logged = spawnScript(join(project.path, "logged.ts"), [], { cwd: project.path })
  await logged.waitForLine(/^own log: /)
  await logged.end()
  await using traced = spawnScript(join(project.path, "traced.ts"), [], { cwd: project.path })
  await project.ask("submit", "orders.total", '{"items": ["tea"]}', "--wait")
  await traced.waitForLine(/traceId/)
})

test("the example of a test passes", async () => {
  using project = makeExamples(examples)
  await using tests = spawnProcess(
    process.execPath,
    ["test", "--timeout", "60000", "orders.test.ts", "travel.test.ts"],
    {
      cwd: project.path,
    },
  )
  expect(await ended(tests)).toMatchObject({ code: 0, output: expect.stringContaining("5 pass") })
})

// ── Names ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** The help of a command, or of the program. */
const helpOf = async (project: Project, command: ReadonlyArray<string>): Promise<string> => {
  const { code, stdout } = await project.ask(...command, "--help")
  expect(code).toBe(0)
  return stdout
}

/** Each mention of the command line, up to where it ends: a line of a block, or a span of code. */
const mentions = (): ReadonlyArray<string> => [
  ...pages
    .flatMap(({ blocks }) => blocks)
    .filter(({ language }) => language === "sh" || language === "dockerfile")
    .flatMap(({ text }) => text.replaceAll(/"|,/g, " ").split("\n"))
    .flatMap((line) => /(?<!install )\bcallboard +[a-z].*/.exec(line)?.[0].replace(/\).*/, "") ?? []),
  ...[...everything.matchAll(/`(?:npx |bun x )?(callboard [^`]+)`/g)].map(([, text = ""]) => text),
]

test("every command and option that is named exists", { timeout: 60_000 }, async () => {
  using project = makeExamples({})
  const program = await helpOf(project, [])
  const commands = new Map<string, string>()
  for (const mention of mentions()) {
    const [, name = "", ...rest] = mention.split(/\s+/)
    expect(program, mention).toMatch(new RegExp(`^ {2}${name}\\b`, "m"))
    if (!commands.has(name)) commands.set(name, await helpOf(project, [name]))
    // Options of a subcommand are in the help of the subcommand: `dead redrive --all`.
    const isOwn = new RegExp(`^ {2}${rest[0]} `, "m").test(`${commands.get(name)}`.split("\nCommands:\n")[1] ?? "")
    const own = isOwn ? await helpOf(project, [name, `${rest[0]}`]) : commands.get(name)
    for (const option of rest.filter((word) => /^--?[a-z]/i.test(word))) {
      expect(own, mention).toMatch(new RegExp(`(^|[\\s,])${option}\\b`, "m"))
    }
  }
  const { text: table } = pageOf("docs/command-line.md")
  const theirs: Readonly<Record<string, ReadonlyArray<string>>> = {
    board: ["claim"],
    dead: ["redrive"],
    schedules: ["change"],
  }
  // The table names the options of each command in its second column.
  for (const [, name = "", rest = ""] of table.matchAll(/^\| `callboard (\w+)[^`]*` \|(.*)\|$/gm)) {
    const help = await helpOf(project, [name, ...(theirs[name] ?? [])])
    for (const [, option = ""] of rest.matchAll(/`(--?[A-Za-z-]+)/g)) {
      expect(help, `${name} ${option}`).toMatch(new RegExp(`(^|[\\s,])${option}\\b`, "m"))
    }
  }
  const listed = [...program.slice(program.indexOf("Commands:")).matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name)
  expect(listed.filter((name) => !table.includes(`callboard ${name}`))).toEqual([])
  const common = table.slice(table.indexOf("All commands take"))
  expect(common).toContain("--json")
  for (const [option] of common.matchAll(/--[a-z-]+/g)) expect(program).toContain(option)
})

/** A command and all below it, with the options that each has of its own. */
const optionsOf = (command: Command, path: string): ReadonlyArray<readonly [path: string, option: string]> => [
  ...command.options.filter(({ hidden }) => !hidden).map(({ long }) => [path, `${long}`] as const),
  ...command.commands.flatMap((below) => optionsOf(below, `${path} ${below.name()}`)),
]

test("every option is named on the page about the command line, or in the table of settings", () => {
  const named = new Set(
    ["docs/command-line.md", "docs/configuration.md"].flatMap((path) => pageOf(path).text.match(/--[a-z-]+/g) ?? []),
  )
  expect(optionsOf(makeProgram(), "callboard").filter(([, option]) => !named.has(option))).toEqual([])
})

test("every option of actors and methods is named on the page about actors", () => {
  const { text } = pageOf("docs/actors.md")
  const table = text.slice(text.indexOf("## Options"), text.indexOf("## What a handler gets"))
  const options = Object.keys({ ...ACTOR_OPTIONS, ...METHOD_OPTIONS }).filter((option) => option !== "methods")
  expect(options.filter((option) => !new RegExp(`^\\|.*\`${option}\\b.* \\|`, "m").test(table))).toEqual([])
})

test("every value that applications, tests and transports import is named", () => {
  const published: Readonly<Record<string, Exports>> = JSON.parse(read("test/fixtures/entry-points.json"))
  const entries = ["callboard", "callboard/client", "callboard/http", "callboard/testing", "callboard/transport"]
  const values = new Set(entries.flatMap((entry) => published[entry]?.values ?? []))
  expect(values.size).toBeGreaterThan(30)
  expect([...values].filter((name) => !new RegExp(`\\b${name}\\b`).test(everything))).toEqual([])
})

test("the routes that are named are those of the OpenAPI document", async () => {
  await using client = await connect("memory:")
  const answer = await http(client, { open: true }).request("/openapi.json")
  const document: { readonly paths: Readonly<Record<string, object>> } = JSON.parse(await answer.text())
  const served = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods)
      .filter((method) => /^(get|post|patch|delete|put)$/.test(method))
      .map((method) => `${method.toUpperCase()} ${path}`),
  )
  const named = (text: string) => [
    ...new Set([...text.matchAll(/\b(GET|POST|PATCH|DELETE) (\/[\w/{}.-]*)/g)].map(([route]) => route)),
  ]
  expect(named(pageOf("docs/http.md").text).sort()).toEqual(served.sort())
  expect(served).toEqual(expect.arrayContaining(named(everything)))
})

test("the codes of errors and the options of NATS are all named", () => {
  const rows = [...pageOf("docs/http.md").text.matchAll(/^\| (\d{3}) \| (.*) \|$/gm)]
  const named = rows.flatMap(([, status, codes = ""]) =>
    [...codes.matchAll(/`([a-z-]+)`/g)].map(([, code = ""]): [string, number] => [code, Number(status)]),
  )
  const statuses = Object.entries(PROBLEMS).map(([code, { status }]) => [code, status])
  expect(named.toSorted()).toEqual(statuses.toSorted())
  const { text } = pageOf("docs/transports.md")
  const table = text.slice(text.indexOf("| option |"), text.indexOf("Two workers and HTTP"))
  const options = [...table.matchAll(/^\| (`.*`) \|/gm)].flatMap(([, cell = ""]) =>
    cell.replaceAll("`", "").split(", "),
  )
  // The error about an unknown option names all known options.
  expect(() => readConfig(new URL("nats://localhost?nope=1"))).toThrow(
    expect.toSatisfy(
      ({ message }: Error) =>
        message.split("it has ?")[1]?.split(", ?").toSorted().join() === [...options, "ns", "lease"].toSorted().join(),
    ),
  )
})

/** Files that the package lacks are linked in the repository. */
const inRepository = /^https:\/\/github\.com\/callboard\/callboard\/(?:blob|tree)\/main\//

test("links lead somewhere, to a heading where they name one", () => {
  const others = ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(readPage)
  const lost = [...pages, ...others].flatMap((page) =>
    [...page.text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = ""]) => {
      const isOwn = inRepository.test(target)
      if (/^https?:/.test(target) && !isOwn) return []
      const [file = "", anchor] = target.replace(inRepository, "").split("#")
      const path = file === "" ? page.path : normalize(isOwn ? file : join(dirname(page.path), file))
      const found = existsSync(join(root, path)) && (anchor === undefined || anchorsOf(readPage(path)).includes(anchor))
      return found ? [] : [`${page.path}: ${target}`]
    }),
  )
  expect(lost).toEqual([])
})

test("every page is on the README's map", () => {
  const { text } = pageOf("README.md")
  const map = text.slice(text.indexOf("## Documentation"))
  expect(pages.slice(1).filter(({ path }) => !map.includes(`(${path})`))).toEqual([])
})

// ── Working on Callboard ────────────────────────────────────────────────────────────────────────────────────────────

test("the scripts that are named exist, and the forge runs what .ci/run does", () => {
  const { scripts, repository, bugs } = JSON.parse(read("package.json"))
  const texts = [...pages.map(({ text }) => text), read("CONTRIBUTING.md")]
  const named = texts.flatMap((text) => [...text.matchAll(/npm run ([\w:]+)/g)].map(([, name = ""]) => name))
  expect(named.filter((name) => !(name in scripts))).toEqual([])
  const { jobs } = parse(read(".github/workflows/ci.yml"))
  expect(jobs.test.steps.at(-1)).toEqual({ run: ".ci/run" })
  const forms = readdirSync(join(root, ".github/ISSUE_TEMPLATE")).map((file) =>
    parse(read(`.github/ISSUE_TEMPLATE/${file}`)),
  )
  expect(forms.filter((form) => "body" in form)).toHaveLength(2)
  // All links to the repository have the same address.
  const home = repository.url.replace(/^git\+|\.git$/g, "")
  const links = [read("SECURITY.md"), bugs.url, JSON.stringify(forms)]
    .join("\n")
    .matchAll(/https:\/\/github\.com\/[\w-]+\/[\w-]+/g)
  expect([...new Set([...links].map(([link]) => link))]).toEqual([home])
})

// ── The guide for authors of transports shows the code as it is ─────────────────────────────────────────────────────

const quotes = [
  ...pageOf("docs/writing-a-transport.md").text.matchAll(/^```(?:ts|sql)\n(?:\/\/|--) (plugins\/\S+)\n(.*?)^```$/gms),
].map(({ 1: file = "", 2: code = "" }) => ({ file, code }))

test.each(quotes)("what the guide quotes of $file is there", ({ file, code }) => {
  expect(read(file)).toContain(code)
})

test("the guide quotes every file of the example", () => {
  const names = ["mod", "driver", "link", "schema"].map((name) => `plugins/postgres/${name}.ts`)
  expect([...new Set(quotes.map(({ file }) => file))].toSorted()).toEqual(names.toSorted())
})
