/** Clients, tools and workers of Celery and of Callboard on one Redis; and the commands of the page about Celery. */
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { makeExamples } from "../cli/examples.ts"
import { celeryProgram } from "../support/servers/celery.ts"
import { eventually, spawnProcess, spawnScript } from "../support/servers/process.ts"
import { type RedisServer, startRedis } from "../support/servers/redis.ts"
import { celeryBlocks, exampleFiles, readPage } from "../support/tools/pages.ts"
import { home, ourWorker, Sides, theirWorker } from "./sides.ts"

let redis: RedisServer
const sides = new Sides(() => {
  const [broker, backend] = [`redis://127.0.0.1:${redis.port}/0`, `redis://127.0.0.1:${redis.port}/1`]
  return { broker, transport: broker, backend, notes: backend }
})

beforeAll(async () => {
  redis = await startRedis(["--save", "", "--appendonly", "no"])
}, 300_000)

afterAll(() => redis?.stop())

ourWorker(sides, [
  ["5.6", 2],
  ["5.6", 1],
  ["5.5", 2],
  ["5.5", 1],
])

test("a backlog of Celery in a paused queue is counted, explained, cancelled and purged, and its clients are told", async () => {
  await using service = await sides.startOurs("paused", ["cold"])
  const { client } = service
  await client.pause("cold")
  const send = [
    "from celery import chord",
    "from tasks import add, tsum, app",
    "at = {'queue': 'cold'}",
    "ids = [add.apply_async((n, 1), **at).id for n in range(300)]",
    "body = chord([add.s(1, 1).set(**at), add.s(2, 2).set(**at)], tsum.s().set(**at)).apply_async()",
    "print(*ids, body.id)",
  ]
  const ids = (await sides.python("5.6", ["-c", send.join("\n")])).trim().split(" ")
  const [first = "", body = ""] = [ids[0], ids.at(-1)]
  const depth = async () => (await client.queues()).find(({ name }) => name === "cold")
  await eventually(async () => (await depth())?.depth === 302)
  expect(await client.why(first)).toMatchObject({ causes: [{ code: "queue-paused" }] })
  expect(await client.jobs({ queue: "cold", states: ["queued"], limit: 1 })).toMatchObject({
    jobs: [{ task: "lab.add" }],
  })
  expect(await client.job(first).cancel()).toMatchObject({ state: "cancelled" })
  expect(await client.purge("cold")).toBe(301)
  expect((await depth())?.depth ?? 0).toBe(0)
  const read = [
    "import sys",
    "from tasks import app",
    "def seen(id):",
    "    try: return app.AsyncResult(id).get(timeout=40)",
    "    except Exception as error: return type(error).__name__",
    "print(*(seen(id) for id in sys.argv[1:]))",
  ]
  const told = await sides.python("5.6", ["-c", read.join("\n"), first, ids[200] ?? "", body])
  expect(told.trim().split(" ")).toEqual(["TaskRevokedError", "TaskRevokedError", "ChordError"])
}, 180_000)

describe("with results that are sent to the client", () => {
  const sending = new Sides(() => ({ ...sides.place, backend: "rpc://" }))
  ourWorker(sending, [["5.5", 2]], { tools: false })
})

describe("the page about Celery", () => {
  const examples = exampleFiles()
  const here = (text: string | undefined): string =>
    (text ?? "").replaceAll("localhost:6379", `127.0.0.1:${redis.port}`)
  const [application = "", route = ""] = readPage("docs/from-celery.md")
    .blocks.filter(({ language }) => language === "text")
    .map(({ text }) => text)

  test("moves one task, command by command", async () => {
    using project = makeExamples({
      "actors/proj-tasks.ts": examples.get("actors/proj-tasks.ts") ?? "",
      "proj/__init__.py": "",
      "proj/tasks.py": here(application),
    })
    const { program, env } = await celeryProgram("5.6", project.path)
    const set = Object.entries(env).map(([name, value]) => `${name}='${value}'`)
    const launcher = join(home, "../../runtime/cli/launcher.js")
    const commands = [
      `npx() { shift; '${process.execPath}' run '${launcher}' "$@"; }`,
      `python3() { ${set.join(" ")} '${program}' "$@"; }`,
      `celery() { python3 -m celery "$@"; }`,
    ].join("\n")
    const shell = (block: string) =>
      spawnProcess("sh", ["-c", `set -e\n${commands}\n${here(block)}`], { cwd: project.path })
    await using worker = shell(celeryBlocks.start)
    await worker.waitForLine(/listens|ready|queues/i)
    const ended = async (block: string): Promise<string> => {
      await using run = shell(block)
      const { code, output } = { ...(await run.closed), output: run.output }
      expect({ code, output }).toMatchObject({ code: 0 })
      return output
    }
    const looked = await ended(celeryBlocks.look)
    expect(looked).toContain("* proj.tasks.add")
    expect(looked).toMatch(/^5$/m)
    expect(looked).toContain("succeeded")
    project.write("proj/tasks.py", here(`${application}\n${route}`))
    expect(await ended(celeryBlocks.move)).toBe("5\n")
  }, 180_000)

  test("has examples that run", async () => {
    using project = makeExamples({
      "actors/math.ts": examples.get("actors/math.ts") ?? "",
      "among-celery.ts": here(examples.get("among-celery.ts")),
      "call-python.ts": here(examples.get("call-python.ts")),
    })
    await using service = spawnScript(join(project.path, "among-celery.ts"), [], { cwd: project.path })
    await service.waitForLine(/ready/)
    const added = "from tasks import app; print(app.send_task('math.tasks.add', [2, 3]).get(timeout=20))"
    expect(await sides.python("5.6", ["-c", added])).toBe("5\n")
    // No Celery worker runs here, and the Callboard worker serves only `math.add`.
    await using client = spawnScript(join(project.path, "call-python.ts"), [], { cwd: project.path })
    await client.closed
    expect(client.output).toContain("NotRegistered")
  }, 120_000)
})

theirWorker(sides)
