/** The README says nothing that is not so: its examples run, its commands, options and routes exist. */
import { existsSync, mkdirSync, readFileSync, symlinkSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { connect, http } from "callboard"
import { expect, test } from "vitest"
import { makeProject, type Project } from "./cli/project.ts"
import { eventually, freePort, type Spawned, spawnProcess, spawnScript } from "./support/servers/process.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const readme = readFileSync(join(root, "README.md"), "utf8")

interface Block {
  readonly language: string
  readonly text: string
  /** Where the block is. */
  readonly at: number
}

const blocks: ReadonlyArray<Block> = [...readme.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(
  ({ 1: language = "", 2: text = "", index: at }) => ({ language, text, at }),
)

const firstOf = (language: string): Block => {
  const found = blocks.find((block) => block.language === language)
  if (found === undefined) throw new Error(`the README has no ${language} block`)
  return found
}

/** The TypeScript blocks that begin with the name of their file; those of one file belong together, in order. */
const filesOf = (): ReadonlyMap<string, string> => {
  const files = new Map<string, string>()
  for (const { language, text } of blocks) {
    const [, file] = /^\/\/ (\S+\.ts)\n/.exec(text) ?? []
    if (language === "ts" && file !== undefined) files.set(file, (files.get(file) ?? "") + text)
  }
  return files
}

const paths = {
  callboard: [join(root, "runtime/mod.ts")],
  "callboard/client": [join(root, "runtime/client/mod.ts")],
  "callboard/testing": [join(root, "runtime/testing/mod.ts")],
}

/** A folder with the examples in it, which finds their libraries here. */
const makeExamples = (files: Readonly<Record<string, string>>): Project => {
  const project = makeProject(files)
  if (!existsSync(join(project.path, "node_modules"))) {
    symlinkSync(join(root, "node_modules"), join(project.path, "node_modules"))
  }
  return project
}

const ended = async (child: Spawned) => ({ ...(await child.closed), output: child.output })

test("opens with twelve lines of code, a curl and its answer, and no other claims", () => {
  const [first, second, third] = blocks
  expect([first?.language, second?.language, third?.language]).toEqual(["ts", "sh", "json"])
  expect(first?.text.trimEnd().split("\n")).toHaveLength(12)
  expect(readme.slice(0, readme.indexOf("## Try it"))).not.toMatch(/fast|per second|jobs\/s|effect\.website/i)
})

test("the first example answers its curl as it says", async () => {
  using project = makeExamples({ "service.ts": "" })
  const port = await freePort()
  const here = (text: string) => text.replaceAll("7420", `${port}`)
  project.write("service.ts", here(firstOf("ts").text))
  await using service = spawnScript(join(project.path, "service.ts"), [], { cwd: project.path })
  const curl = here(firstOf("sh").text).replace(
    "curl -s",
    "curl -s --fail --retry 20 --retry-connrefused --retry-delay 1",
  )
  await using pasted = spawnProcess("sh", ["-c", curl])
  const { code } = await pasted.closed
  expect({ code, service: service.stderr }).toMatchObject({ code: 0 })
  const answer: { readonly id: string } = JSON.parse(pasted.stdout)
  const [id = ""] = /[0-9a-f-]{36}/.exec(firstOf("json").text) ?? []
  const record = await (await fetch(here(`http://localhost:7420/v1/jobs/${answer.id}`))).text()
  expect(answer, record).toEqual(JSON.parse(firstOf("json").text.replaceAll(id, answer.id)))
  service.kill("SIGTERM")
  expect(await service.exited).toEqual({ code: 0, signal: null })
})

test("all examples compile", { timeout: 60_000 }, async () => {
  const files = { ...Object.fromEntries(filesOf()), "service.ts": firstOf("ts").text }
  using project = makeExamples(files)
  const template = JSON.parse(readFileSync(join(root, "runtime/cli/templates/tsconfig.json"), "utf8"))
  // The sources need a newer library than the declarations of the package do.
  const compilerOptions = { ...template.compilerOptions, lib: ["ESNext", "DOM"], types: ["node"], paths }
  project.write("package.json", JSON.stringify({ type: "module" }))
  project.write("tsconfig.json", JSON.stringify({ compilerOptions, include: ["*.ts", "actors"] }))
  // The compiler is a program of its own; what starts it is plain JavaScript.
  await using compiler = spawnProcess("node", [join(root, "node_modules/typescript/bin/tsc"), "-p", project.path])
  expect(await ended(compiler)).toEqual({ code: 0, signal: null, output: "" })
})

test("the recipes run against callboard dev", { timeout: 60_000 }, async () => {
  using project = makeExamples(Object.fromEntries(filesOf()))
  const port = `${await freePort()}`
  project.write("remote.ts", (filesOf().get("remote.ts") ?? "").replace("7420", port))
  project.write("tsconfig.json", JSON.stringify({ compilerOptions: { paths } }))
  await using dev = project.start("dev", "--port", port, "--queues", "default")
  await dev.waitForLine(/^ {2}actors +orders: total, deliver, receipt, apologise$/)
  await using submits = spawnScript(join(project.path, "submit.ts"), [], { cwd: project.path })
  const { code, output } = await ended(submits)
  expect({ code, output }).toMatchObject({ code: 0 })
  // What the recipes print, in their order.
  expect(
    output
      .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID")
      .trimEnd()
      .split("\n"),
  ).toEqual([
    "ID fsync",
    "10",
    "there is no caviar",
    "scheduled",
    "queued ",
    "started ",
    "scheduled retry",
    "started ",
    "succeeded ",
    "deferred",
    "cancelled",
    "true",
    "2",
  ])
  await dev.waitForLine(/succeeded {2}orders\.receipt/)
  await using remote = spawnScript(join(project.path, "remote.ts"), [], { cwd: project.path })
  expect(await ended(remote)).toEqual({ code: 0, signal: null, output: "{\n  total: 10,\n}\n" })
  expect(await project.json("submit", "primes.count", '{"below": 100}', "--wait")).toMatchObject({
    result: { found: 25 },
  })
})

test("the mounted example asks for its token, and does not start without one", async () => {
  using project = makeExamples(Object.fromEntries(filesOf()))
  const port = await freePort()
  project.write("app.ts", (filesOf().get("app.ts") ?? "").replace("3000", `${port}`))
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

test("the example of a test passes", async () => {
  using project = makeExamples(Object.fromEntries(filesOf()))
  project.write("tsconfig.json", JSON.stringify({ compilerOptions: { paths } }))
  await using tests = spawnProcess(process.execPath, ["test", "orders.test.ts"], { cwd: project.path })
  expect(await ended(tests)).toMatchObject({ code: 0, output: expect.stringContaining("1 pass") })
})

/** The help of a command, or of the program. */
const helpOf = async (project: Project, command: ReadonlyArray<string>): Promise<string> => {
  const { code, stdout } = await project.run(...command, "--help")
  expect(code).toBe(0)
  return stdout
}

/** Each mention of the command line, up to where it ends: a line of a block, or a span of code. */
const mentions = (): ReadonlyArray<string> => [
  ...blocks
    .filter(({ language }) => language === "sh" || language === "dockerfile")
    .flatMap(({ text }) => text.replaceAll(/"|,/g, " ").split("\n"))
    .flatMap((line) => /\bcallboard +[a-z].*/.exec(line)?.[0].replace(/\).*/, "") ?? []),
  ...[...readme.matchAll(/`(?:npx |bun x )?(callboard [^`]+)`/g)].map(([, text = ""]) => text),
]

test("every command and option that it names exists", { timeout: 60_000 }, async () => {
  using project = makeExamples({})
  const program = await helpOf(project, [])
  const commands = new Map<string, string>()
  for (const mention of mentions()) {
    const [, name = "", ...rest] = mention.split(/\s+/)
    expect(program, mention).toMatch(new RegExp(`^ {2}${name}\\b`, "m"))
    if (!commands.has(name)) commands.set(name, await helpOf(project, [name]))
    for (const option of rest.filter((word) => /^--?[a-z]/i.test(word))) {
      expect(commands.get(name), mention).toMatch(new RegExp(`(^|[\\s,])${option}\\b`, "m"))
    }
  }
  // The table names the options of a command behind it.
  for (const [, name = "", rest = ""] of readme.matchAll(/^\| `callboard (\w+)[^`]*` \|(.*)\|$/gm)) {
    const help = name === "dead" ? await helpOf(project, ["dead", "redrive"]) : await helpOf(project, [name])
    for (const [, option = ""] of rest.matchAll(/`(--?[A-Za-z-]+)/g)) {
      expect(help, `${name} ${option}`).toMatch(new RegExp(`(^|[\\s,])${option}\\b`, "m"))
    }
  }
  const listed = [...program.slice(program.indexOf("Commands:")).matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name)
  const table = readme.slice(readme.indexOf("## Command line"), readme.indexOf("## Going to NATS"))
  expect(listed.filter((name) => !table.includes(`callboard ${name}`))).toEqual([])
  for (const [option] of table.slice(table.indexOf("All take")).matchAll(/--[a-z-]+/g))
    expect(program).toContain(option)
})

test("the routes that it names are those of the OpenAPI document", async () => {
  await using client = await connect("memory:")
  const answer = await http(client, { open: true }).request("/openapi.json")
  const document: { readonly paths: Readonly<Record<string, object>> } = JSON.parse(await answer.text())
  const served = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods)
      .filter((method) => /^(get|post|patch|delete|put)$/.test(method))
      .map((method) => `${method.toUpperCase()} ${path}`),
  )
  const named = new Set([...readme.matchAll(/\b(GET|POST|PATCH|DELETE) (\/[\w/{}.-]*)/g)].map(([route]) => route))
  expect([...named].sort()).toEqual(served.sort())
})

test("its links lead somewhere", () => {
  const headings = [...readme.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) =>
    title
      .toLowerCase()
      .replaceAll(/[^\w -]/g, "")
      .replaceAll(" ", "-"),
  )
  for (const [, target = ""] of readme.matchAll(/\]\(([^)]+)\)/g)) {
    if (/^https:/.test(target)) continue
    if (target.startsWith("#")) expect(headings).toContain(target.slice(1))
    else expect(existsSync(join(dirname(join(root, "README.md")), target)), target).toBe(true)
  }
})
