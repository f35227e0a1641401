/** The `callboard` command under Node, with a program of a few lines in place of the command line. */

import { cpSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { findRuntime } from "../../../../runtime/cli/runtimes.js"
import { eventually, isRunning, type Spawned, spawnProcess, temporaryFolder } from "../../../support/servers/process.ts"
import { findNode, OLDEST_NODE } from "../../../support/tools/node.js"

const source = fileURLToPath(new URL("../../../../runtime", import.meta.url))
const folder = temporaryFolder()
const cli = join(folder.path, "cli")
const launcher = join(cli, "launcher.js")
/** The oldest Node that the launcher runs on, and one that runs workers. */
const [node, newNode] = [findNode(OLDEST_NODE), findNode()]
afterAll(() => folder.remove())

/** A folder for PATH that holds programs which only repeat their name and arguments. */
function folderOf(...names: readonly string[]): string {
  const path = mkdtempSync(join(folder.path, "path-"))
  for (const name of names) writeFileSync(join(path, name), `#!/bin/sh\necho ${name} "$@"\n`, { mode: 0o755 })
  return path
}

/** A folder for PATH that holds the real Bun, which in its package is called bun.exe on every system. */
const real = mkdtempSync(join(folder.path, "path-"))
symlinkSync(findRuntime("bun")?.path ?? "", join(real, "bun"))

beforeAll(() => {
  // All that the launcher loads: Node must be able to run it.
  const isScript = (path: string) => statSync(path).isDirectory() || path.endsWith(".js")
  for (const room of ["cli", "platform", "service"])
    cpSync(join(source, room), join(folder.path, room), { recursive: true, filter: isScript })
  writeFileSync(join(folder.path, "package.json"), `{ "type": "module" }`)
  writeFileSync(
    join(cli, "main.ts"),
    `const [what, code]: string[] = process.argv.slice(2)
     if (what === "worker") {
       process.send?.("restart")
       process.send?.("ready")
       process.on("disconnect", () => { console.log("alone"); process.exit() })
       process.on("SIGTERM", () => console.log("SIGTERM"))
       process.on("SIGUSR2", () => process.send?.("ending"))
       process.on("message", (message) => console.log(message))
       process.on("SIGUSR1", () => process.exit(9))
       setInterval(() => {}, 1000)
     }
     if (what === "wait") {
       process.on("SIGINT", () => console.log("SIGINT"))
       process.on("SIGTERM", () => { console.log("SIGTERM"); setTimeout(() => process.exit(7), 50) })
       setInterval(() => {}, 1000)
     }
     console.log(["bun", "deno", "node"].find((name) => name in process.versions), process.pid, what)
     if (what === "die") process.kill(process.pid, "SIGKILL")
     if (what === "exit") process.exit(Number(code))`,
  )
})

/** Runs the launcher where only `path` offers a runtime. */
function launch(args: readonly string[], path: string, env: Record<string, string | undefined> = {}, by = node) {
  return spawnProcess(by, [launcher, ...args], {
    cwd: folder.path,
    env: { CALLBOARD_RUNTIME: undefined, PATH: path, ...env },
  })
}

test("the program's arguments and exit code pass through", async () => {
  await using child = launch(["exit", "3"], real)
  expect(await child.exited).toEqual({ code: 3, signal: null })
  expect(child.stdout).toMatch(/^bun \d+ exit$/m)
})

test("a program that a signal ended gives 128 and the signal's number", async () => {
  await using child = launch(["die"], real)
  expect(await child.exited).toEqual({ code: 128 + 9, signal: null })
})

test("signals sent to the launcher alone reach the program, and the launcher waits for it", async () => {
  await using child = launch(["wait"], real)
  const pid = Number((await child.waitForLine(/^bun (\d+) wait$/))[1])
  child.kill("SIGINT")
  await child.waitForLine(/^SIGINT$/)
  expect(isRunning(pid)).toBe(true)
  child.kill("SIGTERM")
  await child.waitForLine(/^SIGTERM$/)
  expect(await child.exited).toEqual({ code: 7, signal: null })
  expect(isRunning(pid)).toBe(false)
})

describe("a worker", () => {
  /** Distinct signals come more than a second apart. */
  const distinct = () => new Promise((resolve) => setTimeout(resolve, 1_100))
  const pidOf = async (child: Spawned) => Number((await child.waitForLine(/^bun (\d+) worker$/))[1])
  /** Once an answer shows that the launcher has heard what this process is: before that, it passes a signal as it is. */
  const watchedPidOf = async (child: Spawned) => {
    const pid = await pidOf(child)
    process.kill(pid, "SIGUSR2")
    await child.waitForLine(/^noted$/)
    return pid
  }

  test.concurrent("is started again when it was killed, and its end in order is that of the launcher", async () => {
    await using child = launch(["worker"], real)
    process.kill(await pidOf(child), "SIGKILL")
    await child.waitForLine(/^callboard: the worker was ended by SIGKILL; restarting it in 1 s$/)
    const [, again] = await eventually(() => {
      const all = [...child.stdout.matchAll(/^bun (\d+) worker$/gm)].map(([, pid]) => Number(pid))
      return all.length === 2 ? all : undefined
    })
    process.kill(again ?? 0, "SIGUSR2")
    await child.waitForLine(/^noted$/)
    process.kill(again ?? 0, "SIGUSR1")
    expect(await child.exited).toEqual({ code: 9, signal: null })
  })

  test.concurrent("hears the first and the second signal; the third ends the launcher, and the worker with it", async () => {
    await using child = launch(["worker"], real)
    const pid = await watchedPidOf(child)
    child.kill("SIGHUP")
    child.kill("SIGINT")
    await child.waitForLine(/^SIGTERM$/)
    await distinct()
    child.kill("SIGTERM")
    await eventually(() => child.stdout.match(/^SIGTERM$/gm)?.length === 2)
    await distinct()
    child.kill("SIGTERM")
    expect(await child.exited).toEqual({ code: 1, signal: null })
    await eventually(() => !isRunning(pid))
    expect(child.stdout.match(/^SIGTERM$/gm)).toHaveLength(2)
  })

  test.concurrent("that is killed while it stops has failed", async () => {
    await using child = launch(["worker"], real)
    const pid = await watchedPidOf(child)
    child.kill("SIGTERM")
    await child.waitForLine(/^SIGTERM$/)
    process.kill(pid, "SIGKILL")
    expect(await child.exited).toEqual({ code: 1, signal: null })
  })

  test.concurrent("learns that the launcher was killed", async () => {
    await using child = launch(["worker"], real)
    const pid = await watchedPidOf(child)
    child.kill("SIGKILL")
    await child.waitForLine(/^alone$/)
    await eventually(() => !isRunning(pid))
    expect(await child.exited).toEqual({ code: null, signal: "SIGKILL" })
  })
})

test("Bun comes first, Deno if it is asked for or without Bun, then Node", async () => {
  const fakes = folderOf("bun", "deno")
  const run = async (path: string, env: Record<string, string> = {}, by?: string) => {
    await using child = launch(["x"], path, env, by)
    await child.exited
    return child.output.trim()
  }
  const main = join(cli, "main.ts")
  const deno = "deno run -A --node-modules-dir=manual --unstable-no-legacy-abort"
  expect(await run(fakes)).toBe(`bun ${main} x`)
  expect(await run(fakes, { CALLBOARD_RUNTIME: "deno" })).toBe(`${deno} ${main} x`)
  expect(await run(folderOf("deno"))).toBe(`${deno} ${main} x`)
  expect(await run(fakes, {}, newNode)).toBe(`bun ${main} x`)
  expect(await run(folderOf(), {}, newNode)).toMatch(/^node \d+ x$/)
  expect(await run(fakes, { CALLBOARD_RUNTIME: "node" }, newNode)).toMatch(/^node \d+ x$/)
})

test("on Node, the process of a worker is started again, and its exit code passes through", async () => {
  await using child = launch(["worker"], folderOf(), {}, newNode)
  const pids = () => [...child.stdout.matchAll(/^node (\d+) worker$/gm)].map(([, pid]) => Number(pid))
  const first = await eventually(() => pids()[0])
  expect(first).not.toBe(child.pid)
  process.kill(first, "SIGKILL")
  await child.waitForLine(/restarting it in 1 s$/)
  const second = await eventually(() => pids()[1])
  process.kill(second, "SIGUSR2")
  await child.waitForLine(/^noted$/)
  process.kill(second, "SIGUSR1")
  expect(await child.exited).toEqual({ code: 9, signal: null })
})

test("a program in node_modules comes before PATH, a stub in its place does not", async () => {
  const bin = join(folder.path, "node_modules", "bun", "bin")
  mkdirSync(bin, { recursive: true })
  const program = join(bin, "bun.exe")
  const run = async () => {
    await using child = launch(["x"], folderOf("bun"))
    await child.exited
    return child.output
  }
  try {
    writeFileSync(program, `#!/bin/sh\necho from the package\n`, { mode: 0o755 })
    expect(await run()).toMatch(/^bun /)
    writeFileSync(program, `#!/bin/sh\necho from the package\nexit\n${"#".repeat(1_000_000)}\n`)
    expect(await run()).toBe("from the package\n")
  } finally {
    rmSync(join(folder.path, "node_modules"), { recursive: true })
  }
})

test("without a runtime one line says what to install", async () => {
  await using child = launch(["x"], folderOf())
  expect(await child.exited).toEqual({ code: 127, signal: null })
  const here = `but this is Node v${OLDEST_NODE}`
  expect(child.stderr).toBe(`callboard: needs Bun, Deno, or Node 24 or newer, ${here}: npm install bun\n`)
  await using forced = launch(["x"], folderOf("bun"), { CALLBOARD_RUNTIME: "node" })
  expect(await forced.exited).toEqual({ code: 127, signal: null })
  expect(forced.stderr).toBe(`callboard: CALLBOARD_RUNTIME=node needs Node 24 or newer to start the command, ${here}\n`)
  await using other = launch(["x"], folderOf("bun"), { CALLBOARD_RUNTIME: "deno" })
  await other.exited
  expect(other.stderr).toBe("callboard: needs Deno: npm install deno (or put deno on PATH)\n")
  await using wrong = launch(["x"], folderOf(), { CALLBOARD_RUNTIME: "perl" })
  expect((await wrong.exited).code).toBe(2)
})
