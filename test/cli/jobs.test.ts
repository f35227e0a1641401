/** Submitting, following, listing and deciding about jobs, with a worker in another process. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { openLink } from "../../runtime/http/link.ts"
import { eventually, type Spawned } from "../support/servers/process.ts"
import { makeProject, type Project, works } from "./project.ts"

interface Job {
  readonly id: string
  readonly name: string
  readonly state: string
  readonly queue: string
  readonly priority: number
  readonly run: number
  readonly result?: unknown
  readonly error?: { readonly name: string; readonly message: string }
  readonly meta?: unknown
  readonly fingerprint?: string
}

/** More steps than are read at once. */
const STEPS = 1_002

const trips = `
import { actor } from "callboard"
export default actor("trips", {
  methods: {
    none: async () => null,
    many: async (_, job) => {
      for (let n = 1; n <= ${STEPS}; n++) await job.step("stop " + n, () => n, { revert: () => null })
      throw new RangeError("no way back")
    },
  },
})
`

let project: Project
let worker: Spawned
beforeAll(async () => {
  project = makeProject({ "actors/works.ts": works, "actors/trips.ts": trips })
  worker = project.start("worker", "-Q", "default", "-c", "2", "-n", "w1")
  await worker.waitForLine(/message=ready.*worker=w1/)
})
afterAll(async () => {
  await worker?.end()
  project?.[Symbol.dispose]()
})

/** Submits without waiting; returns the id. */
const submit = async (...args: readonly string[]): Promise<string> =>
  (await project.json<{ id: string }>("submit", ...args)).id

const find = (id: string) => project.json<Job>("job", id)
const ended = (id: string, state: string) =>
  eventually(async () => ((await find(id)).state === state ? find(id) : undefined), {
    message: `${id} is not ${state}`,
  })

describe("submit", () => {
  test("prints the id alone, so that a script can take it", async () => {
    const { code, stdout, stderr } = await project.ask("submit", "works.echo", '{"a":1}')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^[0-9a-f-]{36}\n$/)
    expect(stderr).toBe(`works.echo: queued (durability: fsync)\nfollow it: callboard job ${stdout.trim()} --watch\n`)
    expect(await ended(stdout.trim(), "succeeded")).toMatchObject({ result: { a: 1 }, queue: "default", priority: 4 })
  })

  test.each([
    ["id", ["--id", "bad id"], /^callboard: id: must be 1 to 128 letters, digits, `_` or `-`$/],
    ["ttl", ["--ttl", "0"], /^callboard: ttl: must be more than 0$/],
    ["ttl", ["--ttl", "-1"], /^callboard: ttl: -1 is not a duration: it is negative\./],
    ["timeLimit.hard", ["--time-limit", "0"], /^callboard: timeLimit\.hard: must be more than 0$/],
    ["timeLimit.hard", ["--time-limit", "abc"], /^callboard: timeLimit\.hard: "abc" is not a duration/],
    ["unique", ["--unique"], /^callboard: unique: needs an `id`/],
  ])("refuses a wrong %s with %j, as code and HTTP do", async (_field, options, message) => {
    const { code, stdout, stderr } = await project.ask("submit", "works.echo", "{}", ...options)
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" })
    expect(stderr.trim()).toMatch(message)
  })

  test("--unique refuses an id that a kept job has", async () => {
    const id = await submit("works.echo", "{}", "--id", "only", "--unique")
    await ended(id, "succeeded")
    const { code, stderr } = await project.ask("submit", "works.echo", "{}", "--id", "only", "--unique")
    expect(code).toBe(1)
    expect(stderr).toContain("job only is succeeded and its id must be unique")
    await project.ask("delete", "only")
    expect(await submit("works.echo", "{}", "--id", "only", "--unique")).toBe("only")
  })

  test("--wait prints the result", async () => {
    expect(await project.ask("submit", "works.echo", '{"a":[1,"two"]}', "--wait")).toMatchObject({
      code: 0,
      stdout: '{"a":[1,"two"]}\n',
    })
  })

  test("--wait on a job that fails ends with exit code 1 and its error", async () => {
    const { code, stdout, stderr } = await project.ask("submit", "works.fail", "--wait", "10s")
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" })
    expect(stderr).toMatch(/callboard: job \S+ failed: RangeError: out of luck; see: callboard job /)
    const json = await project.ask("submit", "works.fail", "--wait", "--json")
    expect(json).toMatchObject({ code: 1, stderr: "" })
    expect(JSON.parse(json.stdout)).toMatchObject({ state: "failed", error: { name: "RangeError" } })
  })

  test("--wait with a bound that is over ends with exit code 3, and the job goes on", async () => {
    const { code, stderr } = await project.ask("submit", "works.nap", '{"ms":1500}', "--id", "slow", "--wait", "200ms")
    expect(code).toBe(3)
    expect(stderr).toMatch(/job slow did not end within 0\.2 s; it is still running/)
    await ended("slow", "succeeded")
  })

  test("input comes from a file or from standard input", async () => {
    writeFileSync(join(project.path, "input.json"), '{"from":"file"}')
    const said = await project.ask("submit", "works.echo", "@input.json", "--wait")
    expect(said).toMatchObject({ code: 0, stdout: '{"from":"file"}\n' })
    await using child = project.start("submit", "works.echo", "-", "--wait")
    child.write('{"from":"stdin"}')
    child.endInput()
    await child.closed
    expect(child.stdout).toBe('{"from":"stdin"}\n')
  })

  test("takes what the task body takes", async () => {
    const fields = ["--method", "echo", "--queue", "elsewhere", "--priority", "7", "--expires", "1h", "--id", "fields"]
    const more = ["--delay", "10 minutes", "--retry-max", "2", "--shadow", "Echo", "--meta", '{"who":"me"}']
    const receipt = await project.json("submit", "works", "[1]", ...fields, ...more)
    expect(receipt).toMatchObject({ id: "fields", state: "scheduled", durability: "fsync" })
    const job = await find("fields")
    expect(job).toMatchObject({
      name: "Echo",
      queue: "elsewhere",
      priority: 7,
      state: "scheduled",
      meta: { who: "me" },
    })
    expect(await project.json("submit", "works", "[1]", ...fields, ...more)).toMatchObject({ duplicate: true })
  })

  test("--header, given once for each, reaches the handler", async () => {
    const headers = ["--header", "tenant=acme", "--header", "note=a = b"]
    const { stdout } = await project.ask("submit", "works.headers", ...headers, "--wait")
    expect(JSON.parse(stdout)).toMatchObject({ tenant: "acme", note: "a = b" })
  })

  test("says when no worker serves the actor of a task, or its method", async () => {
    const { code, stderr } = await project.ask("submit", "nobody.home", "--queue", "elsewhere")
    expect(code).toBe(0)
    expect(stderr).toMatch(/no running worker serves nobody/)
    const misspelled = await project.ask("submit", "works.ecoh", "--queue", "elsewhere")
    expect(misspelled.code).not.toBe(0)
    expect(misspelled.stderr).toMatch(/^callboard: actor works has no method ecoh \(did you mean echo\?\)/m)
    const forced = await project.ask("submit", "works.ecoh", "--queue", "elsewhere", "--force")
    expect(forced.code).toBe(0)
    expect(forced.stderr).toMatch(/^no running worker serves works\.ecoh .*; the task waits for one$/m)
    expect((await project.ask("submit", "works.echo")).stderr).not.toMatch(/no worker/)
  })
})

describe("job", () => {
  test("tells the whole story", async () => {
    const id = await submit("works.fail")
    await ended(id, "failed")
    const { code, stdout } = await project.ask("job", id)
    expect(code).toBe(0)
    expect(stdout).toMatch(new RegExp(`^works\\.fail  ${id}  failed$`, "m"))
    expect(stdout).toMatch(/^ {2}error\s+RangeError: out of luck \(handler\)$/m)
    expect(stdout).toMatch(/^ {2}started\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d, waited /m)
    expect(stdout).toMatch(/^ {2}\d\d:\d\d:\d\d\.\d{3} {2}queued/m)
    expect(stdout).toMatch(/^ {2}\d\d:\d\d:\d\d\.\d{3} {2}failed/m)
  })

  test("tells what was asked for, and --results how its runs ended", async () => {
    const asked = ["--details", '{"n":1}', "--book", "orders=b-1", "--meta", '{"m":2}', "--header", "tenant=acme"]
    const limits = ["--ttl", "1h", "--time-limit", "2m", "--result-ttl", "3d", "--queue", "elsewhere"]
    const waiting = await submit("works.echo", '{"a":[1]}', ...asked, ...limits)
    const page = (await project.ask("job", waiting, "--wide")).stdout
    for (const line of [
      /description +works\.echo\(a=\[1\]\)$/m,
      /sender +gen\d+@/,
      /details +\{"n":1\}$/m,
      /book +orders b-1$/m,
      /headers +\{"tenant":"acme"\}$/m,
      /input +\{"a":\[1\]\}$/m,
      /meta +\{"m":2\}$/m,
      /time limit +2 min/,
      /ttl +1 h/,
    ])
      expect(page).toMatch(line)
    expect(await find(waiting)).toMatchObject({ ttl: 3_600, timeLimit: { hard: 120 }, resultTtl: 259_200 })
    await project.ask("cancel", waiting)
    expect((await project.ask("job", waiting, "--results")).stdout).toMatch(/^1 +CANCELLED/)
    const failed = await submit("works.fail")
    await ended(failed, "failed")
    expect((await project.ask("job", failed, "--results")).stdout).toMatch(/^1 +FAILED .*RangeError: out of luck$/m)
    expect(await project.json("job", failed, "--results")).toMatchObject({
      id: failed,
      results: [{ run: 1, type: "FAILED", error: { message: "out of luck" } }],
    })
  })

  test("--steps lists its durable steps, however many there are", async () => {
    const none = await submit("trips.none")
    await ended(none, "succeeded")
    expect((await project.ask("job", none, "--steps")).stdout).toBe("no step has ended yet\n")
    expect(await project.json("job", none, "--steps")).toEqual({ id: none, steps: [] })
    const many = await submit("trips.many", "--time-limit", "60s")
    await ended(many, "failed")
    const { steps } = await project.json<{ steps: ReadonlyArray<{ name: string }> }>("job", many, "--steps")
    expect(steps.map(({ name }) => name)).toEqual(Array.from({ length: STEPS }, (_, at) => `stop ${at + 1}`))
    const { stdout } = await project.ask("job", many, "--steps", "--wide")
    expect(stdout.split("\n")[0]).toMatch(/^stop 1 +reverted /)
    expect(stdout).toMatch(new RegExp(`^stop ${STEPS} +reverted `, "m"))
  })

  test("--watch follows it to its end", async () => {
    const id = await submit("works.nap", '{"ms":400}')
    const { code, stdout } = await project.ask("job", id, "--watch")
    expect(code).toBe(0)
    expect(stdout).toMatch(/queued[\s\S]*started[\s\S]*succeeded[\s\S]*result {2}\{"pid":\d+,"attempt":1\}/)
    const failed = await submit("works.fail")
    const json = await project.ask("job", failed, "--watch", "--json")
    expect(json.code).toBe(1)
    const events = json.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line))
    expect(events.at(-1)).toMatchObject({ type: "end", job: { id: failed, state: "failed" } })
    expect(events.filter((event) => event.type === "transition").length).toBeGreaterThan(1)
  })

  test("one that is not known is exit code 1", async () => {
    expect(await project.ask("job", "nobody-knows")).toMatchObject({
      code: 1,
      stdout: "",
      stderr: "callboard: there is no job nobody-knows\n",
    })
  })
})

test("jobs lists by state, task and queue, a page at a time", async () => {
  for (const id of ["page1", "page2", "page3"]) await submit("works.echo", "--queue", "paged", "--id", id)
  const first = await project.json<{ jobs: Job[]; next: string }>("jobs", "--queue", "paged", "--limit", "2")
  const second = await project.json<{ jobs: Job[] }>("jobs", "--queue", "paged", "--limit", "2", "--cursor", first.next)
  expect([...first.jobs, ...second.jobs].map((job) => job.id).sort()).toEqual(["page1", "page2", "page3"])
  expect(second).not.toHaveProperty("next")
  const text = await project.ask("jobs", "--queue", "paged", "--state", "queued", "--limit", "2")
  expect(text.stdout).toMatch(/^SUBMITTED +STATE +NAME +ID +QUEUE +TOOK/)
  expect(text.stdout.trim().split("\n")).toHaveLength(3)
  expect(text.stderr).toMatch(/there are more: --cursor \S+/)
  expect(await project.ask("jobs", "--queue", "paged", "--state", "failed,cancelled")).toMatchObject({
    code: 0,
    stdout: "",
    stderr: "no jobs\n",
  })
})

test("tables and the page of a job fit 80 columns; --wide leaves nothing out", async () => {
  const name = `${"long-".repeat(12)}name`
  const id = await submit("works.fail", "--shadow", name, "--meta", JSON.stringify({ note: "x".repeat(2_000) }))
  await ended(id, "failed")
  await submit("works.echo", "--queue", "q".repeat(100), "--id", "i".repeat(100), "--shadow", name)
  for (const command of [
    ["jobs"],
    ["job", id],
    ["queues"],
    ["workers"],
    ["inspect", "stats"],
    ["inspect", "registered"],
  ]) {
    const { stdout } = await project.ask(...command)
    const lines = stdout.split("\n").filter((line) => !/^ {4}\S/.test(line))
    expect(Math.max(...lines.map((line) => line.length)), stdout).toBeLessThanOrEqual(80)
  }
  const wide = (await project.ask("jobs", "--wide")).stdout
  expect(wide).toMatch(/^SUBMITTED +STATE +NAME +ID +QUEUE +ATTEMPTS +TOOK/)
  for (const part of [id, name, "q".repeat(100), "i".repeat(100)]) expect(wide).toContain(part)
  expect((await project.ask("job", id, "--wide")).stdout).toContain("x".repeat(2_000))
})

test("cancel, retry and delete decide about each job on its own", async () => {
  await submit("works.echo", "--queue", "elsewhere", "--id", "waiting")
  const cancel = await project.ask("cancel", "waiting", "unknown")
  expect(cancel).toMatchObject({
    code: 1,
    stdout: "waiting  cancelled\n",
    stderr: "callboard: there is no job unknown\n",
  })
  expect(await project.ask("retry", "waiting", "--from", "visa")).toMatchObject({
    code: 1,
    stderr: "callboard: fromStep: must be absent: job waiting has no durable steps\n",
  })
  expect(await project.ask("retry", "waiting")).toMatchObject({ code: 0, stdout: "waiting  queued\n" })
  expect(await find("waiting")).toMatchObject({ state: "queued", run: 2 })
  expect(await project.ask("delete", "waiting")).toMatchObject({ code: 0, stdout: "waiting  deleted\n" })
  const again = await project.ask("delete", "waiting", "--json")
  expect(again.code).toBe(1)
  expect(JSON.parse(again.stdout)).toEqual([
    { id: "waiting", error: { message: "job waiting is no longer kept", code: "gone" } },
  ])
})

test("many are retried by what they have in common: first in a dry run, then a few of them", async () => {
  for (const id of ["trial1", "trial2"]) await submit("works.echo", "--queue", "trial", "--id", id, "--delay", "1h")
  await project.ask("cancel", "trial1", "trial2")
  const which = ["--state", "cancelled", "--queue", "trial"]
  const dry = await project.ask("retry", ...which, "--dry-run")
  expect(dry).toMatchObject({
    code: 0,
    stdout: "2 match, 2 can run again\ntasks: works.echo 2\nqueues: trial 2\nwarning: no worker consumes queue trial\n",
  })
  expect(await project.json("retry", ...which, "--dry-run")).toMatchObject({ will: 2, sample: ["trial2", "trial1"] })
  expect(await find("trial1")).toMatchObject({ state: "cancelled", run: 1 })
  expect(await project.ask("retry", ...which)).toMatchObject({ code: 0, stdout: "trial2  queued\ntrial1  queued\n" })

  const failed = await submit("works.fail")
  const { fingerprint } = await ended(failed, "failed")
  await ended(await submit("works.fail"), "failed")
  const tried = await project.ask("retry", "--error", fingerprint ?? "", "--try-first", "1")
  expect(tried.code).toBe(1)
  expect(tried.stdout).toMatch(/^\S+ {2}queued\n$/)
  expect(tried.stderr).toMatch(/^callboard: 1 of the first 1 did not succeed: the other \d+ were not changed$/m)
  expect(await project.json("retry", failed, "none", "--dry-run")).toMatchObject({ refused: { "not-found": 1 } })

  const none = await project.ask("retry", ...which, "--try-first", "0")
  expect(none).toMatchObject({ code: 2, stderr: "callboard: --try-first 0: must be a whole number, 1 or more\n" })
  for (const state of ["succeeded", "queued"])
    expect(await project.ask("retry", "--state", `failed,${state}`, "--dry-run")).toMatchObject({
      code: 2,
      stderr: `callboard: --state ${state}: only jobs that are failed, cancelled, expired can be retried, not ${state}\n`,
    })
})

test("a value that JSON lacks is taken and printed in one form", async () => {
  const given = '{"n":{"__type__":"int","__value__":"1180591620717411303424"}}'
  expect(await project.ask("submit", "works.echo", given, "--wait")).toMatchObject({ code: 0, stdout: `${given}\n` })
  // An integer that a double cannot hold is that integer, as it is over HTTP, and none of its neighbours.
  expect(await project.ask("submit", "works.echo", "--arg", "n:=1180591620717411303425", "--wait")).toMatchObject({
    stdout: `${given.replace("424", "425")}\n`,
  })
  const meta = '{"n":1180591620717411303425}'
  expect(await project.ask("submit", "works.echo", "{}", "--meta", meta)).toMatchObject({
    code: 2,
    stderr: "callboard: meta.n is a bigint, which JSON lacks\n",
  })
})

test("every command that takes an id takes a unique ending of it", async () => {
  const later = ["--delay", "1h", "--queue", "elsewhere"]
  await submit("works.echo", ...later, "--id", "parent-5678-first")
  await submit("works.echo", ...later, "--id", "child-of-it", "--after", "78-first", "--parent", "8-first")
  expect(await find("8-first")).toMatchObject({ id: "parent-5678-first" })
  expect(await find("child-of-it")).toMatchObject({
    parentId: "parent-5678-first",
    after: { ids: ["parent-5678-first"] },
  })
  const { jobs } = await project.json<{ jobs: Job[] }>("jobs", "--parent", "8-first")
  expect(jobs.map(({ id }) => id)).toEqual(["child-of-it"])
  await submit("works.echo", ...later, "--id", "of-a-group", "--group", "night")
  const group = await project.json<{ jobs: Job[] }>("jobs", "--group", "night")
  expect(group.jobs.map(({ id }) => id)).toEqual(["of-a-group"])
  expect(await project.json("why", "78-first")).toMatchObject({ id: "parent-5678-first" })
  expect((await project.ask("inspect", "put-off", "78-first")).code).toBe(0)
  for (const [command, done] of [
    ["cancel", "cancelled"],
    ["retry", "queued"],
    ["control revoke", "cancelled"],
    ["delete", "deleted"],
  ] as const) {
    expect(await project.ask(...command.split(" "), "78-first")).toMatchObject({
      code: 0,
      stdout: `parent-5678-first  ${done}\n`,
    })
  }
  await submit("works.echo", ...later, "--id", "another-5678-first")
  await submit("works.echo", ...later, "--id", "third-5678-first")
  const both = await project.ask("cancel", "78-first")
  expect(both).toMatchObject({ code: 1, stdout: "" })
  expect(both.stderr).toMatch(/78-first is the end of several ids: .*another-5678-first \(works\.echo\).*; use more/)
})

test("dead lists what was given up, and redrives it", async () => {
  using dead = makeProject()
  await using strict = dead.start("worker", "--unknown-grace", "0", "-n", "strict")
  await strict.waitForLine(/message=ready.*worker=strict/)
  await dead.json("submit", "nobody.home", "--id", "lost1")
  const refused = await dead.ask("submit", "works.ecoh", "--id", "lost2")
  expect(refused.stderr).toContain("actor works has no method ecoh (did you mean echo?)")
  await dead.json("submit", "works.nothing", "--id", "lost2", "--force")
  const list = await eventually(async () => {
    const page = await dead.json<{ jobs: (Job & { dead: string })[] }>("dead")
    return page.jobs.length === 2 ? page.jobs : undefined
  })
  expect(list.map((job) => job.dead)).toEqual(["unknown-actor", "unknown-actor"])
  expect((await dead.ask("dead")).stdout).toMatch(/ENDED .*\n.*lost/)
  const idsFor = async (reason: string) =>
    (await dead.json<{ jobs: Job[] }>("dead", "--reason", reason)).jobs.map(({ id }) => id).toSorted()
  expect(await idsFor("unknown-actor")).toEqual(["lost1", "lost2"])
  expect(await idsFor("worker-lost")).toEqual([])
  await strict.end()
  const none = await dead.ask("dead", "redrive", "--all", "--reason", "worker-lost")
  expect(none).toMatchObject({ code: 0, stdout: "", stderr: "no dead letters\n" })
  expect(await dead.ask("dead", "redrive", "--all", "--task", "nobody.home")).toMatchObject({
    code: 0,
    stdout: "lost1  queued\n",
  })
  expect(await dead.ask("dead", "redrive", "lost2")).toMatchObject({ code: 0, stdout: "lost2  queued\n" })
  expect(await dead.ask("dead")).toMatchObject({ code: 0, stderr: "no dead letters\n" })
})

test("queues and workers show what is there", async () => {
  await submit("works.echo", "--queue", "counted", "--delay", "1h")
  await submit("works.echo", "--queue", "counted")
  const { queues } = await project.json<{ queues: { name: string }[] }>("queues")
  expect(queues.find(({ name }) => name === "counted")).toEqual({
    name: "counted",
    paused: false,
    depth: 1,
    scheduled: 1,
    running: 0,
    inFlight: 0,
    oldest: expect.stringMatching(/^\d{4}-.*Z$/),
    oldestAge: expect.any(Number),
  })
  expect((await project.ask("queues")).stdout).toMatch(/^counted +1 +1 +0 +0 /m)
  const { workers } = await project.json<{ workers: unknown[] }>("workers")
  expect(workers).toMatchObject([{ name: "w1", queues: ["default"], actors: ["trips", "works"], concurrency: 2 }])
  // The list shows the worker as of its last heartbeat.
  await eventually(async () => /^w1 +idle +0\/2 /m.test((await project.ask("workers")).stdout), {
    message: "the worker is listed as idle",
  })
})

test("doctor shows each value, its origin, and what the transport can do", async () => {
  const token = "sesame-sesame"
  using other = makeProject({
    "actors/works.ts": `export { default } from "${project.path}/actors/works.ts"`,
    "callboard.config.ts": `export default { concurrency: 3, http: { tokens: [{ token: "${token}", scopes: ["read"] }] } }`,
  })
  other.env["CALLBOARD_PREFETCH"] = "9"
  const { code, stdout } = await other.ask("doctor", "--transport", "sqlite:mine.db?ns=hush")
  expect(code).toBe(0)
  expect(stdout).toMatch(/^ {2}transport +sqlite:mine\.db +flag --transport$/m)
  expect(stdout).toMatch(/^ {2}prefetch +9 +variable CALLBOARD_PREFETCH$/m)
  expect(stdout).toMatch(/^ {2}concurrency +3 +callboard\.config\.ts$/m)
  expect(stdout).toMatch(/^ {2}grace +25 seconds +default$/m)
  expect(stdout).toMatch(/^ {2}actors +works$/m)
  expect(stdout).toMatch(/^ {2}reachable +yes/m)
  expect(stdout).toMatch(/^ {2}durability +fsync$/m)
  expect(stdout).toMatch(/^ {2}(bun|deno) +\d/m)
  expect(stdout).not.toMatch(/hush|sesame/)
})

test("a link to a job is printed, for the settings' secret, and doctor does not show the secret", async () => {
  using other = makeProject({ "actors/works.ts": works })
  const secret = "0123456789abcdef0123456789abcdef"
  const { id } = await other.json<Job>("submit", "works.echo", "1", "--force")
  const without = await other.ask("link", id)
  expect(without).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("set http.linkSecret") })
  other.env["CALLBOARD_HTTP_LINK_SECRET"] = secret
  const made = await other.ask("link", id.slice(-8), "--scopes", "read,operate", "--ttl", "1h")
  expect(made).toMatchObject({ code: 0, stderr: expect.stringContaining(`read, payload, operate of job ${id}`) })
  expect(openLink(secret, made.stdout.trim())).toMatchObject({ id, scopes: ["read", "payload", "operate"] })
  expect(await other.json("link", id)).toMatchObject({ id, scopes: ["read", "payload"] })
  for (const wrong of [
    ["--ttl", "31d"],
    ["--scopes", "admin"],
    ["--scopes", ""],
  ])
    expect(await other.ask("link", id, ...wrong)).toMatchObject({ code: 2, stdout: "" })
  const { stdout } = await other.ask("doctor")
  expect(stdout).toMatch(/http\.linkSecret +set +variable CALLBOARD_HTTP_LINK_SECRET/)
  expect(stdout).not.toContain(secret)
})

describe("revoke", () => {
  test("cancels what carries the header until it is lifted", async () => {
    const revocation = await project.json<{ id: string; header: string; values: ReadonlyArray<string> }>(
      "revoke",
      "tenant=acme",
      "tenant=other",
      "--ttl",
      "1 hour",
    )
    expect(revocation).toMatchObject({ header: "tenant", values: ["acme", "other"] })
    expect((await project.ask("revoke", "--list")).stdout).toContain("acme, other")
    expect((await project.ask("revoke", "--lift", revocation.id)).code).toBe(0)
    expect(await project.json("revoke", "--list")).toEqual({ revocations: [] })
  })

  test.each([
    [[], "revoke: use header=value, --list or --lift ID"],
    [["tenant"], "revoke: write header=value, with the same header in all pairs, not tenant"],
    [["a=1", "b=2"], "revoke: write header=value, with the same header in all pairs, not b=2"],
    [["a=1", "--list"], "revoke: use header=value, --list or --lift ID"],
    [["a=1", "--ttl", "never"], "ttl: "],
  ])("%j is wrong usage", async (args, message) => {
    const { code, stderr } = await project.ask("revoke", ...args)
    expect(code).toBe(2)
    expect(stderr).toContain(message)
  })
})

test("what others wrote about a job reaches the terminal escaped, and programs as it is", async () => {
  const hostile = "x\u001b]0;title\u0007\u001b[31m\r\u009b2J\u202ey"
  const harmless = "x\\u001b]0;title\\u0007\\u001b[31m\\u000d\\u009b2J\\u202ey"
  const args = ["--queue", "nobody", "--delay", "1h", "--description", hostile]
  const id = await submit("text.count", "{}", ...args, "--meta", JSON.stringify({ note: hostile }))
  const page = (await project.ask("job", id)).stdout
  expect(page).toContain(harmless)
  for (const command of [["job", id], ["jobs"], ["why", id]]) {
    const { stdout, stderr } = await project.ask(...command)
    expect(stdout + stderr).not.toMatch(/[^\P{Cc}\n\t]|\u202e/u)
  }
  expect(await find(id)).toMatchObject({ description: hostile, meta: { note: hostile } })
  const unknown = await project.ask("job", "no\u001b[2Jsuch")
  expect(unknown.stderr).toContain("\\u001b[2J")
  expect(unknown.stderr).not.toContain("\u001b")
})
