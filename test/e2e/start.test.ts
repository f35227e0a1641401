/** Start of a worker: before its broker is there, without it, and with a signal in the middle of the start. */
import { createServer, type Server } from "node:net"
import { fileURLToPath } from "node:url"
import { connect } from "callboard"
import { describe, expect, test } from "vitest"
import { makeProject } from "../cli/project.ts"
import { startNats } from "../support/servers/nats.ts"
import { eventually, freePort, spawnScript, temporaryFolder } from "../support/servers/process.ts"

const status = async (port: number, path: string): Promise<number> =>
  (await fetch(`http://127.0.0.1:${port}${path}`)).status

/** Starts a broker that accepts connections and never sends a byte. */
const startMute = async (): Promise<{ readonly server: Server; readonly port: number }> => {
  const port = await freePort()
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve))
  return { server, port }
}

test("a worker answers HTTP while its broker is not there, and runs jobs once it is", async () => {
  using project = makeProject()
  const [port, broker] = [await freePort(), await freePort()]
  project.env["CALLBOARD_TRANSPORT"] = `nats://127.0.0.1:${broker}`
  project.env["CALLBOARD_RECONNECT_CAP"] = "0.5s"
  await using worker = project.start("worker", "--port", `${port}`)
  await worker.waitForLine(/Trying again in .* \(3\/100\)/)
  expect(await status(port, "/healthz")).toBe(200)
  expect(await status(port, "/readyz")).toBe(503)
  expect(await status(port, "/v1/jobs")).toBe(503)
  const server = await startNats({ port: broker })
  try {
    await eventually(async () => (await status(port, "/readyz")) === 200, { deadline: 60_000 })
    expect(await project.json("submit", "works.echo", "7", "--wait")).toMatchObject({ result: 7 })
    worker.kill("SIGTERM")
    expect(await worker.exited).toEqual({ code: 0, signal: null })
  } finally {
    await server.stop()
  }
})

test("a worker that has tried often enough ends with exit code 1", async () => {
  using project = makeProject()
  const [port, broker] = [await freePort(), await freePort()]
  project.env["CALLBOARD_TRANSPORT"] = `nats://127.0.0.1:${broker}`
  await using worker = project.start("worker", "--port", `${port}`, "--max-tries", "3")
  await worker.waitForLine(/Trying again/)
  expect(await status(port, "/healthz")).toBe(200)
  expect(await status(port, "/readyz")).toBe(503)
  expect(await worker.exited).toEqual({ code: 1, signal: null })
  await expect(status(port, "/healthz")).rejects.toThrow()
})

test.each(["serve", "dev"])(
  "%s answers while it connects, and ends with exit code 4 when that fails",
  async (command) => {
    using project = makeProject()
    const port = await freePort()
    const mute = await startMute()
    try {
      project.env["CALLBOARD_TRANSPORT"] = `nats://127.0.0.1:${mute.port}`
      await using started = project.start(command, "--port", `${port}`)
      await eventually(async () => (await status(port, "/healthz")) === 200)
      expect(await status(port, "/readyz")).toBe(503)
      expect(await status(port, "/v1/jobs")).toBe(503)
      expect(await started.exited).toEqual({ code: 4, signal: null })
      await expect(status(port, "/healthz")).rejects.toThrow()
    } finally {
      mute.server.close()
    }
  },
)

describe("a signal while a worker starts", () => {
  const script = fileURLToPath(new URL("slow-start.ts", import.meta.url))

  test("leaves nothing in the list of workers, and releases what was acquired", async () => {
    using folder = temporaryFolder()
    const path = `${folder.path}/board.db`
    await using starting = spawnScript(script, [`slow:${path}`, "name"])
    await using client = await connect(`sqlite:${path}`)
    await starting.waitForLine(/^at name$/)
    starting.kill("SIGTERM")
    expect(await starting.closed).toEqual({ code: 0, signal: null })
    expect(await client.workers()).toEqual([])
    expect(starting.output).toMatch(/^released$/m)
    expect(starting.output).toMatch(/^stopped with no worker$/m)
  })

  test("does not wait for an actor that never starts", async () => {
    using folder = temporaryFolder()
    await using starting = spawnScript(script, [`slow:${folder.path}/board.db`, "actor"])
    await starting.waitForLine(/^at actor$/)
    starting.kill("SIGTERM")
    const late = new Promise((resolve) => setTimeout(resolve, 10_000, "still there"))
    expect(await Promise.race([starting.closed, late])).toEqual({ code: 0, signal: null })
  })
})
