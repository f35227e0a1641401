/** How the command line is called: help, advice on mistakes, exit codes, and never a stack trace unless asked for. */
import { spawnSync } from "node:child_process"
import { once } from "node:events"
import { createServer } from "node:net"
import { hostname } from "node:os"
import { fileURLToPath } from "node:url"
import { describe, expect, test } from "vitest"
import { SETTINGS } from "../../runtime/config/settings.ts"
import { makeProject } from "./project.ts"

describe("a mistake ends with exit code 2 and one line of advice", () => {
  const cases: ReadonlyArray<[args: string, advice: RegExp]> = [
    ["jbos", /unknown command 'jbos' \(did you mean jobs\?\); see: callboard --help$/m],
    ["jobs --stat failed", /unknown option '--stat' \(did you mean --state\?\); see: callboard jobs --help$/m],
    ["dead redrive --al", /unknown option '--al' \(did you mean --all\?\); see: callboard dead redrive --help$/m],
    ["jobs --state fialed", /--state fialed: no such state \(did you mean failed\?\); the states are deferred, /],
    ["jobs --limit 0", /--limit 0: .*1 to 1000/],
    ["jobs extra", /too many arguments/],
    ["submit", /missing required argument 'task'/],
    ["submit works.echo {", /the input is not valid JSON: /],
    ["submit works.echo hello", /quote a text: '"hello"'/],
    ["submit works.echo @none.json", /none\.json cannot be read/],
    ["submit works.echo --wait soon", /--wait: "soon" is not a duration/],
    ["submit works.echo --priority high", /--priority high: must be a number/],
    ["submit works.echo --priority 12", /priority: /],
    ["submit works.echo --delay 5parsecs", /delay: "5parsecs" is not a duration/],
    ["submit works.echo --header tenant", /--header tenant: write name=value/],
    ["submit works.echo --header =acme", /--header =acme: write name=value/],
    ["submit works.echo --header a=1 --header a=2", /--header a: is given twice/],
    ["submit works.echo --header retries=2", /headers\.retries: is a standard header; use the field of the task/],
    ["help jbos", /help jbos: is not a command of callboard \(did you mean jobs\?\); see: callboard --help/],
    [
      "help dead redirve",
      /help redirve: is not a command of callboard dead \(did you mean redrive\?\); see: callboard dead --help/,
    ],
    ["purge default", /purge default: would cancel all its waiting tasks; confirm with --yes/],
    ["submit works.echo --meta 1", /--meta must be a JSON object/],
    ["worker -c many", /--concurrency: .*1 to 10000/],
    ["worker -c 0", /--concurrency: .*1 to 10000/],
    ["worker --time-limit 0", /--time-limit: must be more than 0/],
    ["worker --on-lost retry", /--on-lost: must be "redeliver" or "fail"/],
    ["worker -Q high,a*b", /--queues: "a\*b" cannot be a name of a queue: use at most/],
    ["worker --processes 1.5", /--processes: .*1 to 256/],
    ["worker --autoscale 16,2", /--autoscale: .*2\.\.16, not 16,2/],
    ["worker --autoscale 10", /--autoscale: .*2\.\.16/],
    ["dev --autoscale 5..2", /--autoscale: 5\.\.2 .*did you mean 2\.\.5\?/],
    ["control pool-grow", /count: is missing: .*1 to 10000/],
    ["control pool-shrink 0", /count: .*1 to 10000/],
    ["control pool-grow two", /count: .*1 to 10000/],
    ["control pool-grow 1 2", /control pool-grow: takes count/],
    ["control autoscale 5 2", /min: .*did you mean min 2 and max 5\?/],
    ["control autoscale 16,2", /control autoscale: .*2\.\.16, not 16,2/],
    ["control autoscale 10", /control autoscale: .*2\.\.16/],
    ["control rate-limit works.echo 10/x", /rate: "10\/x" is not a rate: .* s, m or h/],
    ["control rate-limit works.echo ten", /rate: "ten" is not a rate: it is not a number with/],
    ["control rate-limit works.echo -- -1/m", /rate: "-1\/m" is not a rate: it is not a number with/],
    ["control add-consumer a*b", /queue: "a\*b" cannot be a name of a queue: use at most/],
    ["control time-limit works.echo soon", /hard: "soon" is not a duration/],
    ["control shutdown now", /control shutdown: takes no arguments/],
    ["inspect scheduled --workers w1", /inspect scheduled does not query workers: remove --workers and --timeout/],
    ["control revoke x --timeout 5s", /control revoke does not query workers: remove --workers and --timeout/],
    ["worker --transport nowhere", /is not a transport URL; try "sqlite:jobs.db"/],
    ["jobs --transport carrier-pigeon:coop", /no transport for carrier-pigeon: .* callboard-transport-carrier-pigeon/],
    ["dead redrive", /dead redrive: name jobs, or use --all/],
    ["dead redrive x --all", /dead redrive: name jobs, or use --all/],
  ]
  const isAlone = (args: string): boolean => args === "worker --transport nowhere"

  test.each(cases)("callboard %s", async (args, advice) => {
    using project = makeProject()
    const words = args.split(" ")
    // A worker starts processes of its own program, and so is not run beside others in one process.
    const { code, stdout, stderr } = await (isAlone(args) ? project.run(...words) : project.ask(...words))
    expect(stderr).toMatch(advice)
    expect(stderr.trim().split("\n")).toHaveLength(1)
    expect(stderr).toMatch(/^callboard: /)
    expect(stdout).toBe("")
    expect(code).toBe(2)
  })

  test("in the configuration file and the environment too", async () => {
    using project = makeProject({ "callboard.config.ts": "export default { concurency: 2 }" })
    const file = await project.run("jobs")
    expect(file).toMatchObject({ code: 2, stdout: "" })
    expect(file.stderr).toBe(
      "callboard: callboard.config.ts: concurency is not a setting (did you mean concurrency?)\n",
    )
    project.write("callboard.config.ts", "export default {}")
    project.env["CALLBOARD_TRANSPROT"] = "memory:"
    const variable = await project.run("jobs")
    expect(variable).toMatchObject({ code: 2, stdout: "" })
    expect(variable.stderr).toBe(
      "callboard: CALLBOARD_TRANSPROT is not a setting (did you mean CALLBOARD_TRANSPORT?)\n",
    )
  })
})

test("help lists every command; without a command it is shown with exit code 2", async () => {
  using project = makeProject({})
  const help = await project.ask("--help")
  expect(help.code).toBe(0)
  const commands = [...help.stdout.matchAll(/^ {2}([a-z][a-z-]*) /gm)].map((match) => match[1])
  expect(commands).toEqual(
    "init dev worker serve submit job link why jobs group cancel signal retry delete schedules revoke dead board conductor stats errors queues queue workers actors pause resume purge delete-queue suspend unsuspend inspect control events doctor help".split(
      " ",
    ),
  )
  expect(help.stdout.replaceAll(/\s+/g, " ")).toMatch(
    /Exit codes: 0 done, 1 failed, 2 wrong usage, 3 timeout, 4 transport unreachable, 5 worker with handlers that do not stop, 6 ended before it was done/,
  )
  expect(await project.run()).toMatchObject({ code: 2 })
  expect(await project.ask("help")).toEqual(help)
  expect(await project.ask("help", "jobs")).toEqual(await project.ask("jobs", "--help"))
  const nested = await project.ask("help", "dead", "redrive")
  expect(nested).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Usage: callboard dead redrive /) })
  expect(await project.ask("help", "control", "time-limit")).toEqual(await project.ask("control", "--help"))
  const worker = await project.ask("worker", "--help")
  expect(worker.code).toBe(0)
  for (const flag of ["-Q, --queues", "-c, --concurrency", "-n, --name", "-l, --log-level", "--transport", "--json"]) {
    expect(worker.stdout).toContain(flag)
  }
  expect(worker.stdout).not.toContain("--work-process")
})

test("no line of a help, of doctor or after a submission is longer than a terminal of 80 columns", async () => {
  using project = makeProject()
  const helps = ["--help", "dead redrive --help"]
  const { stdout: main } = await project.ask("--help")
  for (const [, name] of main.slice(main.indexOf("Commands:")).matchAll(/^ {2}([a-z]+) /gm))
    helps.push(`${name} --help`)
  for (const command of [...helps, "doctor", "submit works.echo"]) {
    const { stdout, stderr } = await project.ask(...command.split(" "))
    const long = `${stdout}${stderr}`.split("\n").filter((line) => line.length > 80)
    expect({ command, long }).toEqual({ command, long: [] })
  }
})

test("help of a flag that negates says what giving it does", async () => {
  using project = makeProject({})
  const { stdout } = await project.ask("worker", "--help")
  const flags = SETTINGS.flatMap(({ flag = "", negation }) => (flag.startsWith("--no-") ? [{ flag, negation }] : []))
  expect(flags).toHaveLength(4)
  const help = stdout.replace(/\s+/g, " ")
  for (const { flag, negation } of flags) expect(help).toContain(` ${flag} ${negation} -`)
  expect(help).toContain("--no-reconnect Stop the worker, with exit code 1, when the transport is lost")
})

test("the version is that of the package", async () => {
  using project = makeProject({})
  const { default: manifest } = await import("../../package.json", { with: { type: "json" } })
  expect(await project.ask("--version")).toMatchObject({ code: 0, stdout: `${manifest.version}\n` })
})

test("a transport that cannot be reached is exit code 4; its stack is shown with -l debug alone", async () => {
  using project = makeProject()
  project.env["CALLBOARD_TRANSPORT"] = "nats://127.0.0.1:1"
  for (const { code, stderr } of [
    await project.ask("jobs"),
    await project.ask("submit", "works.echo"),
    await project.ask("doctor"),
    await project.run("serve"),
    await project.run("worker", "--no-reconnect-at-start"),
  ]) {
    expect(stderr.trim().split("\n")).toHaveLength(1)
    expect(stderr).toMatch(/--transport, and see: callboard doctor/)
    expect(code).toBe(4)
  }
  const debug = await project.ask("jobs", "-l", "debug")
  expect(debug.code).toBe(4)
  expect(debug.stderr).toMatch(/\n\s+at /)
})

test("an actor file that does not compile is named, with the line", async () => {
  using project = makeProject({ "actors/broken.ts": "export const a = 1\nexport default {,}\n" })
  const { code, stderr } = await project.run("worker")
  expect(code).toBe(1)
  expect(stderr).toMatch(/^callboard: .*broken\.ts:2:\d+ cannot be loaded: /)
  expect(stderr.trim().split("\n")).toHaveLength(1)
})

test("no folder of actors, no actors in it", async () => {
  using project = makeProject({ "actors/notes.ts": "export const a = 1" })
  expect((await project.run("worker")).stderr).toMatch(/holds no actors/)
  expect((await project.run("worker", "--actors", "none")).stderr).toMatch(
    /there is no folder .*none: create it, or name another folder with --actors/,
  )
  const dev = await project.run("dev", "--actors", "none")
  expect(dev.code).toBe(1)
  expect(dev.stderr).toMatch(/callboard init/)
})

test("a port that is taken is one line, with what to do, and exit code 1", async () => {
  using project = makeProject()
  const other = createServer().listen(0, "127.0.0.1")
  await once(other, "listening")
  const address = other.address()
  const port = String(typeof address === "object" && address !== null ? address.port : 0)
  try {
    for (const command of ["serve", "worker", "dev"]) {
      const { code, stdout, stderr } = await project.run(command, "--port", port)
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" })
      expect(stderr).toMatch(new RegExp(`^callboard: .*\\b${port}\\b.*choose another.*\n$`))
    }
  } finally {
    other.close()
  }
})

test("serve logs the address that it listens on", async () => {
  using project = makeProject()
  project.env["CALLBOARD_HTTP_TOKENS"] = `admin:${"t".repeat(32)}`
  await using server = project.start("serve", "--host", "0.0.0.0", "--port", "0")
  await server.waitForLine(/message=ready.*url=http:\/\/0\.0\.0\.0:\d+/)
})

test("nothing is submitted to a board that ends with the command", async () => {
  using project = makeProject()
  const { code, stdout, stderr } = await project.ask("submit", "works.echo", "--transport", "memory:")
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" })
  expect(stderr).toMatch(/^callboard: memory: exists only in this process: use --transport to name .*\n$/)
})

test("doctor shows what a default comes to", async () => {
  using project = makeProject()
  const { settings } = await project.json<{ settings: { setting: string; value: string }[] }>("doctor")
  const valueOf = (name: string) => settings.find(({ setting }) => setting === name)?.value
  expect(Number(valueOf("concurrency"))).toBeGreaterThanOrEqual(4)
  expect(valueOf("logFormat")).toBe("logfmt")
  expect(valueOf("name")).toBe(`${hostname()}-<random>`)
})

test("colours by flag, variable and file, of tables and of pretty log lines, and never of logfmt", async () => {
  using project = makeProject()
  const colours = async (...args: readonly string[]) =>
    (await project.ask("doctor", ...args)).stdout.includes("\u001b[")
  expect(await colours()).toBe(false)
  expect(await colours("--color", "always")).toBe(true)
  project.env["CALLBOARD_LOG_COLOR"] = "always"
  expect(await colours()).toBe(true)
  expect(await colours("--color", "never")).toBe(false)
  expect(await project.ask("doctor", "--color", "sometimes")).toMatchObject({ code: 2 })
  for (const format of ["pretty", "logfmt", "json"]) {
    await using server = project.start("serve", "--port", "0", "--log-format", format)
    await server.waitForLine(/ready/)
    expect(server.output.includes("\u001b["), format).toBe(format === "pretty")
  }
})

test("output that cannot be written is a failure, and says so", () => {
  using project = makeProject()
  const launcher = fileURLToPath(new URL("../../runtime/cli/launcher.js", import.meta.url))
  const command = ["-c", '"$0" "$1" jobs --json > /dev/full', process.execPath, launcher]
  const { status, stderr } = spawnSync("sh", command, { cwd: project.path, encoding: "utf8" })
  expect(stderr).toMatch(/^callboard: the output cannot be written: .*ENOSPC/m)
  expect(status).toBe(1)
})

test("output through a pipe is whole, however long it is and however late its reader", async () => {
  using project = makeProject()
  // More than a pipe holds.
  await project.ask("submit", "works.echo", JSON.stringify("x".repeat(100_000)), "--id", "long")
  const launcher = fileURLToPath(new URL("../../runtime/cli/launcher.js", import.meta.url))
  const command = ["-c", '"$0" "$1" job long --json | (sleep 0.2; cat)', process.execPath, launcher]
  const { stdout } = spawnSync("sh", command, { cwd: project.path, encoding: "utf8" })
  expect(JSON.parse(stdout)).toMatchObject({ id: "long" })
})
