/** Queues and lists on the command line and over HTTP: the scenarios of arguments, of queues, and what is refused. */
import { actor, connect, http } from "callboard"
import { connectHttp } from "callboard/client"
import { Hono } from "hono"
import { afterEach, beforeEach, expect, test } from "vitest"
import { startNats } from "../support/servers/nats.ts"
import { eventually } from "../support/servers/process.ts"
import { start } from "../support/services.ts"
import { makeProject, type Project } from "./project.ts"

const math = `
import { actor } from "callboard"
export default actor("math", {
  methods: {
    echo: (input) => input,
    told: { params: ["a", "b", "x", "key"], run: (all) => all },
    fail: async () => { throw new Error("no") },
  },
})
`

let project: Project
beforeEach(() => {
  project = makeProject({ "actors/math.ts": math })
})
afterEach(() => project[Symbol.dispose]())

const board = () => `sqlite:${project.path}/.callboard/board.db`
const burst = () => project.run("worker", "--burst")

test("S195 arguments: text, JSON, by name, from a file", { timeout: 60_000 }, async () => {
  project.write("long.txt", "from a file")
  const values = ["5", ":5", "x:=7", "@long.txt", "key=a=b"].flatMap((value) => ["--arg", value])
  const posted = await project.ask("submit", "math.told", "--id", "told", ...values)
  expect(posted).toMatchObject({ code: 0, stdout: "told\n" })
  expect(posted.stderr).toContain("math.told: queued")
  await using client = await connect(board())
  const { message } = (await client.connection.jobs.find("told"))?.record ?? {}
  const body = JSON.parse(new TextDecoder().decode(message?.body))
  expect(body.slice(0, 2)).toEqual([["5", 5, "from a file"], { x: 7, key: "a=b" }])
})

test.each([
  [["math.echo", "--arg", ":{"], /--arg :\{ is not valid JSON/],
  [["math.echo", "--arg", "x:=nope"], /--arg x is not valid JSON/],
  [["math.echo", "--arg", "x=1", "--arg", "x=2"], /--arg x: is given twice/],
  [["math.echo", "--arg", "@nowhere.txt"], /nowhere\.txt cannot be read/],
  [["math.echo", "5", "--arg", "5"], /cannot be combined with an input/],
  [["math.echo", "5", "--delay", "5", "--eta", "2030-01-01T00:00:00Z"], /`delay` or `eta`, not both/],
])("S195 wrong arguments end with exit code 2: %j", async (given, message) => {
  const answer = await project.ask("submit", ...given)
  expect(answer.code).toBe(2)
  expect(answer.stderr).toMatch(message)
})

test("S196 a raw line per queue; without a server a message", { timeout: 60_000 }, async () => {
  await project.json("submit", "math.echo", "1")
  await project.json("submit", "math.echo", "2")
  expect(await project.ask("queues", "--raw")).toMatchObject({
    code: 0,
    stdout: "queue default 2, 0 executing, 0 finished, 0 failed\n",
  })
  await burst()
  await project.json("submit", "math.fail")
  await burst()
  expect((await project.ask("queues", "--raw")).stdout).toBe("queue default 0, 0 executing, 2 finished, 1 failed\n")
  // A broker that is not there has an exit code of its own, so that scripts need not read the message.
  const away = await project.ask("queues", "--raw", "--transport", "nats://127.0.0.1:1")
  expect(away).toMatchObject({ code: 4, stdout: "" })
  expect(away.stderr).toMatch(/cannot connect to 127\.0\.0\.1:1/)
})

test("queue --max-in-flight limits a queue", { timeout: 60_000 }, async () => {
  await project.json("submit", "math.echo", "1")
  expect((await project.ask("queue", "default", "--max-in-flight", "50")).stdout).toBe(
    "default  at most 50 at a time\n",
  )
  expect((await project.ask("queues")).stdout).toContain("at most 50 at a time")
  expect(await project.json("queue", "default", "--max-in-flight", "none")).toEqual({
    queue: "default",
    maxInFlight: null,
  })
  expect((await project.ask("queues")).stdout).not.toContain("at a time")
  for (const wrong of ["0", "100001", "x", "-1", "1.5", "null", ""]) {
    const refused = await project.ask("queue", "default", "--max-in-flight", wrong)
    expect(refused.code, wrong).toBe(2)
    expect(refused.stderr).toContain("maxInFlight: must be a whole number from 1 to 100000, or null")
  }
  const unknown = await project.ask("queue", "defualt", "--max-in-flight", "5")
  expect(unknown.stderr).toContain("no queue defualt is known (did you mean default?)")
  expect(unknown.stderr).toContain("it is limited anyway")
})

test("S198 empty, requeue, suspend and resume", { timeout: 60_000 }, async () => {
  for (let n = 0; n < 2; n++) await project.json("submit", "math.fail")
  await burst()
  await project.json("submit", "math.echo", "1")
  expect((await project.ask("purge", "default", "--yes")).stdout).toBe("1\n")
  expect((await project.ask("jobs", "--state", "failed", "--count")).stdout).toBe("2\n")
  expect((await project.ask("retry", "--all", "--queue", "elsewhere")).stderr).toContain("no failed jobs")
  expect((await project.ask("retry", "--queue", "default")).code).toBe(2)
  expect((await project.ask("retry", "--all", "--queue", "default")).stdout).toMatch(/^(\S+ {2}queued\n){2}$/)
  expect(await project.json("jobs", "--state", "queued", "--count")).toEqual({ count: 2, more: false })
  expect((await project.ask("suspend")).stdout).toMatch(/^all workers +suspended$/m)
  expect((await project.ask("unsuspend")).stdout).toMatch(/^all workers +resumed$/m)
})

test("S195, S196, S198, S199 on nats: the commands say the same", { timeout: 60_000 }, async () => {
  await using server = await startNats()
  project.env["CALLBOARD_TRANSPORT"] = server.url
  const posted = await project.ask("submit", "math.echo", "--id", "five", "--arg", ":5")
  expect(posted).toMatchObject({ code: 0, stdout: "five\n" })
  await project.json("submit", "math.fail")
  expect((await project.ask("queues", "--raw")).stdout).toBe("queue default 2, 0 executing, 0 finished, 0 failed\n")
  const ran = await project.run("worker", "--burst", "-n", "w1", "-l", "debug")
  expect(ran.stdout).toMatch(/math\.echo succeeded in [\d.]+ s on w1.* job=five/)
  expect((await project.ask("queues", "--raw")).stdout).toBe("queue default 0, 0 executing, 1 finished, 1 failed\n")
  expect((await project.ask("retry", "--all", "--queue", "default")).stdout).toMatch(/^\S+ {2}queued\n$/)
  expect((await project.ask("purge", "default", "--yes")).stdout).toBe("1\n")
  expect((await project.ask("suspend")).stdout).toMatch(/^all workers +suspended$/m)
  expect((await project.ask("unsuspend")).stdout).toMatch(/^all workers +resumed$/m)
})

test("what waits in a queue, and the end of a queue", { timeout: 60_000 }, async () => {
  for (const id of ["p0", "p1", "p2"]) await project.json("submit", "math.echo", "1", "--id", id)
  expect(await project.json("queue", "default", "--offset", "1", "--limit", "1")).toEqual({ ids: ["p1"] })
  expect((await project.ask("queue", "default")).stdout).toMatch(/POSITION +ID\n0 +p0\n1 +p1\n2 +p2\n/)
  expect((await project.ask("job", "p2")).stdout).toMatch(/before it +2\n/)
  expect((await project.ask("queue", "default", "--limit", "few")).code).toBe(2)
  expect((await project.ask("delete-queue", "default")).stderr).toMatch(
    /would cancel 3 waiting tasks; confirm with --yes/,
  )
  expect((await project.ask("delete-queue", "default", "--yes")).stdout).toBe("3\n")
  expect(await project.json("queues")).toEqual({ queues: [] })
  expect(await project.ask("delete-queue", "default", "--yes")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("there is no queue default"),
  })
})

const many = (count: number) => Array.from({ length: count }, () => ({ task: "math.echo" }))

test("a purge or a deletion that ends before the queue is empty ends with exit code 6, and says how to go on", {
  timeout: 60_000,
}, async () => {
  await using client = await connect(board())
  await client.submitMany(many(200))
  const goOn = "; to continue, run the same command again\n"
  const purge = ["purge", "default", "--yes", "--budget", "0"] as const
  expect(await project.ask(...purge)).toEqual({
    code: 6,
    stdout: "32\n",
    stderr: `callboard: purge default: 32 cancelled, 168 left${goOn}`,
  })
  const { code, stdout } = await project.ask(...purge, "--json")
  expect(code).toBe(6)
  expect(JSON.parse(stdout)).toEqual({ queue: "default", purged: 32, partial: { done: 32, left: 136 } })
  expect(await project.ask("delete-queue", "default", "--yes", "--budget", "0")).toEqual({
    code: 6,
    stdout: "32\n",
    stderr: `callboard: delete-queue default: 32 cancelled, 104 left in the queue, which stays paused${goOn}`,
  })
  expect(await client.paused()).toEqual(["default"])
  expect(await project.ask("delete-queue", "default", "--yes")).toEqual({ code: 0, stdout: "104\n", stderr: "" })
  expect(await client.paused()).toEqual([])
  expect((await project.ask("purge", "default", "--yes", "--budget", "soon")).code).toBe(2)
})

test("what waits in a queue does not run after a deletion that was killed, and another one goes on", {
  timeout: 60_000,
}, async () => {
  await using client = await connect(board())
  await client.submitMany(many(4_000))
  const waiting = async () => (await client.queues()).find(({ name }) => name === "default")?.depth ?? 0
  const begins = () => eventually(async () => (await waiting()) < 4_000, { message: "some are cancelled" })
  await using killed = project.start("delete-queue", "default", "--yes")
  await begins()
  killed.killGroup("SIGKILL")
  await killed.closed
  const left = await waiting()
  expect(left).toBeGreaterThan(0)
  expect((await burst()).code).toBe(0)
  expect(await client.count({ states: ["succeeded"] })).toEqual({ count: 0 })
  expect(await project.ask("delete-queue", "default", "--yes")).toMatchObject({ code: 0, stdout: `${left}\n` })
  expect(await client.paused()).toEqual([])
})

test("a command about many jobs that is interrupted ends with exit code 6, and says how far it came", {
  timeout: 60_000,
}, async () => {
  await using client = await connect(board())
  const ids = Array.from({ length: 4_000 }, (_, at) => `job-${at}`)
  await client.submitMany(ids.map((id) => ({ task: "math.echo", id })))
  const cancelled = async () => (await client.count({ states: ["cancelled"] })).count
  const interrupted = async (...args: ReadonlyArray<string>) => {
    const before = await cancelled()
    await using child = project.start(...args)
    await eventually(async () => (await cancelled()) > before, { message: "some are cancelled" })
    child.killGroup("SIGINT")
    return { ...(await child.closed), done: (await cancelled()) - before, said: child.stderr }
  }
  const one = await interrupted("cancel", ...ids.slice(0, 2_000))
  expect(one).toMatchObject({
    code: 6,
    said: `callboard: ${one.done} cancelled, others remain; to continue, run the same command again\n`,
  })
  const rest = await interrupted("purge", "default", "--yes")
  expect(rest).toMatchObject({ code: 6 })
  expect(rest.said).toBe(
    `callboard: purge default: ${rest.done} cancelled, ${4_000 - one.done - rest.done} left; to continue, run the same command again\n`,
  )
})

test("the same over HTTP, with the same words for what is wrong", async () => {
  await using client = await connect(`memory://${crypto.randomUUID()}`)
  const app = new Hono()
  app.route("/", http(client, { open: true }))
  const ask = async (path: string, method = "GET", given?: unknown) => {
    const sent =
      given === undefined ? {} : { body: JSON.stringify(given), headers: { "content-type": "application/json" } }
    const response = await app.request(`http://localhost${path}`, { method, ...sent })
    const body: { readonly code?: string; readonly detail?: string } = JSON.parse(await response.text())
    return { status: response.status, body }
  }
  for (const id of ["p0", "p1", "p2"]) await client.submit("math.echo", { id, queue: "q" })
  expect((await ask("/v1/queues/q/jobs?offset=1&limit=1")).body).toEqual({ ids: ["p1"] })
  expect((await ask("/v1/jobs/p2/position")).body).toEqual({ position: 2, more: false })
  expect((await ask("/v1/jobs/unknown/position")).body).toEqual({ position: null, more: false })
  expect((await ask("/v1/count?queue=q&state=queued")).body).toEqual({ count: 3, more: false })
  expect((await ask("/v1/count?task=math.echo")).body).toEqual({ count: 3, more: false })
  for (const [path, method, refusal] of [
    ["/v1/queues/q/jobs?limit=0", "GET", () => client.waiting("q", { limit: 0 })],
    ["/v1/queues/q/jobs?offset=-1", "GET", () => client.waiting("q", { offset: -1 })],
    ["/v1/queues/nowhere", "DELETE", () => client.deleteQueue("nowhere")],
    ["/v1/queues/a%0Ab", "DELETE", () => client.deleteQueue("a\nb")],
  ] as const) {
    const refused: unknown = await refusal().catch((error: unknown) => error)
    const { status, body } = await ask(path, method)
    expect(status).toBe(body.code === "not-found" ? 404 : 400)
    expect(refused).toMatchObject({ code: body.code, message: body.detail })
  }
  const clash = [
    { id: "new", task: "math.echo", queue: "q" },
    { id: "p0", task: "math.told" },
  ]
  expect(await ask("/v1/jobs?atomic=true", "POST", clash)).toMatchObject({ status: 409, body: { code: "job-exists" } })
  expect((await ask("/v1/jobs/new")).status).toBe(404)
  expect((await ask("/v1/jobs?atomic=true", "POST", clash.slice(0, 1))).status).toBe(202)
  await client.job("new").delete()
  expect((await ask("/v1/queues/q", "DELETE")).body).toEqual({ purged: 3 })
  expect((await ask("/v1/queues")).body).toEqual({ queues: [] })
})

test("a workflow as a tree", { timeout: 60_000 }, async () => {
  await using client = await connect(board())
  await client.submit("math.echo", { id: "top" })
  for (const id of ["a", "b"]) await client.submit("math.echo", { id, parentId: "top", rootId: "top", group: "both" })
  await client.submit("math.fail", { id: "below", parentId: "a", rootId: "top" })
  await client.submit("math.echo", { id: "last", parentId: "top", rootId: "top" })
  await client.submit("math.echo", { id: "other" })
  const { stdout } = await project.ask("job", "a", "--tree")
  expect(stdout).toBe(
    [
      "math.echo  top  queued",
      "  group both",
      "    math.echo  a  queued  <-",
      "      math.fail  below  queued",
      "    math.echo  b  queued",
      "  math.echo  last  queued",
      "",
    ].join("\n"),
  )
  expect((await project.ask("job", "a", "--tree", "--watch")).code).toBe(2)
  // The tree has jobs that wait for the job, and jobs that it waits for.
  await client.submit("math.echo", { id: "waits", after: ["below", "other"] })
  expect((await project.ask("job", "below", "--tree")).stdout).toContain(
    "      math.fail  below  queued  <-\n        math.echo  waits  deferred, after below, other\n",
  )
  expect((await project.ask("job", "waits", "--tree")).stdout).toBe(
    [
      "math.fail  below  queued",
      "  math.echo  waits  deferred, after below, other  <-",
      "math.echo  other  queued",
      "",
    ].join("\n"),
  )
  const app = new Hono().route("/", http(client, { open: true }))
  const answer: unknown = await (await app.request("http://localhost/v1/jobs/below/tree")).json()
  expect(answer).toMatchObject({ nodes: [{}, {}, {}, {}, {}, { id: "waits", after: ["below", "other"] }] })
  expect(await project.json("job", "below", "--tree")).toEqual(answer)
  // The two jobs name each other as their parent.
  await client.submit("math.echo", { id: "egg", parentId: "hen", rootId: "farm" })
  await client.submit("math.echo", { id: "hen", parentId: "egg", rootId: "farm" })
  expect((await project.ask("job", "hen", "--tree")).stdout).toBe(
    ["math.echo  egg  queued", "  math.echo  hen  queued  <-", ""].join("\n"),
  )
})

test("S199 what a burst worker says, in order; what ends it is on standard error; quiet says nothing", {
  timeout: 60_000,
}, async () => {
  project.write("callboard.config.ts", `export default { logLevel: "debug", resultTtl: 500 }`)
  await project.json("submit", "math.echo", "5", "--id", "five")
  const ran = await project.run("worker", "--burst", "-n", "w1")
  const said = [
    /message="the worker is starting" .*worker=w1 queues=default version=\d+\.\d+\.\d+ pid=\d+/,
    /message="math\.echo starts" .*job=five .*arguments=.*5/,
    /message="math\.echo succeeded in [\d.]+ s on w1; its result is kept for 500 seconds" .*job=five/,
    /message="w1 has no more work \(burst\)"/,
    /message="stopped: /,
  ]
  const lines = ran.stdout.split("\n")
  const places = said.map((each) => lines.findIndex((line) => each.test(line)))
  expect(places.filter((at) => at < 0)).toEqual([])
  expect(places).toEqual(places.toSorted((a, b) => a - b))
  expect(ran.stderr).toBe("")

  // Log lines of every level are on standard output; the error that ends the command is on standard error.
  const failed = await project.run("worker", "--burst", "--transport", "carrier-pigeon:coop")
  expect(failed.stdout).toBe("")
  expect(failed.stderr).toMatch(/^callboard: .*carrier-pigeon/m)

  await project.json("submit", "math.echo", "5")
  const quiet = await project.run("worker", "--burst", "-l", "none")
  expect(quiet).toMatchObject({ stdout: "", stderr: "" })
})

test("a batch that is atomic, over HTTP from code", async () => {
  const math = actor("math", { methods: { echo: (input: unknown) => input } })
  const service = await start([math], { http: { port: 0 }, queues: ["elsewhere"] })
  const remote = connectHttp(service.url ?? "")
  const tasks = ["a", "b"].map((id) => ({ task: "math.echo", id, input: id }))
  expect(await remote.submitMany(tasks, { atomic: true })).toMatchObject([{ id: "a" }, { id: "b" }])
  const clash = [
    { task: "math.echo", id: "c" },
    { task: "math.echo", id: "a", input: "other" },
  ]
  await expect(remote.submitMany(clash, { atomic: true })).rejects.toMatchObject({ code: "job-exists" })
  await expect(remote.job("c").find()).rejects.toMatchObject({ code: "not-found" })
})
