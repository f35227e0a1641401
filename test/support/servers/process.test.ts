import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { expect, test } from "vitest"
import { eventually, freePort, isRunning, spawnProcess, spawnScript, temporaryFolder } from "./process.ts"

const helper = fileURLToPath(new URL("process.ts", import.meta.url))

test("a process's output and end are collected", async () => {
  await using child = spawnProcess("sh", ["-c", "echo one; echo two >&2; read -r line; echo got $line; exit 3"])
  await child.waitForLine(/^one$/)
  child.write("three\n")
  expect((await child.waitForLine(/^got (.*)$/))[1]).toBe("three")
  expect(await child.exited).toEqual({ code: 3, signal: null })
  expect(child.stderr).toBe("two\n")
})

test("waiting for a line fails with the output when the process ends or the deadline passes", async () => {
  await using ended = spawnProcess("sh", ["-c", "echo last words"])
  await expect(ended.waitForLine(/never/)).rejects.toThrow(/ended \(0\)[\s\S]*last words/)
  await using silent = spawnProcess("sleep", ["60"])
  await expect(silent.waitForLine(/never/, 50)).rejects.toThrow("50 ms passed")
})

test("the end of a process is the end of its children", async () => {
  const parent = spawnProcess("sh", ["-c", "sleep 60 & echo child $!; wait"])
  const child = Number((await parent.waitForLine(/child (\d+)/))[1])
  await parent.end()
  await eventually(() => !isRunning(child), { message: "the child still runs" })
})

test("processes and folders are gone after a test process that was killed", async () => {
  using folder = temporaryFolder()
  const script = join(folder.path, "runner.ts")
  const code = `
    import { spawnProcess, temporaryFolder } from ${JSON.stringify(helper)}
    console.log("started", spawnProcess("sleep", ["60"]).pid, temporaryFolder().path)
    setInterval(() => {}, 1000)`
  writeFileSync(script, code)
  const runner = spawnScript(script)
  const [, pid, path = ""] = await runner.waitForLine(/started (\d+) (.+)/)
  expect(isRunning(Number(pid))).toBe(true)
  expect(existsSync(path)).toBe(true)
  runner.kill("SIGKILL")
  await eventually(() => !isRunning(Number(pid)) && !existsSync(path), { message: "something is left over" })
})

test("free ports and eventually", async () => {
  const ports: number[] = []
  while (ports.length < 600) ports.push(await freePort())
  expect(Math.min(...ports)).toBeGreaterThan(1023)
  expect(new Set(ports).size, "each port is given to one test alone").toBe(ports.length)
  let looks = 0
  expect(await eventually(() => ++looks === 3 && "third", { every: 1 })).toBe("third")
  const never = eventually(() => Promise.reject(new Error("why")), { deadline: 30, message: "no" })
  await expect(never).rejects.toThrow("no within 30 ms: why")
})
