/** Routes of lists, bulk decisions and dead letters, and of the service itself. */
import { actor, Reject } from "callboard"
import { Schema } from "effect"
import { afterEach, describe, expect, test } from "vitest"
import { FAILURES, SLOTS, slotName } from "../../../../runtime/statistics/entries.ts"
import { MINUTE_MS, SLOT_MINUTES, SLOT_MS } from "../../../../runtime/statistics/tally.ts"
import { VERSION } from "../../../../runtime/version.ts"
import { eventually } from "../../../support/servers/process.ts"
import { finished, type Running, start, stopAll } from "./harness.ts"

afterEach(stopAll)

interface Summary {
  readonly id: string
  readonly state: string
}
const idsOf = (jobs: ReadonlyArray<Summary>): ReadonlyArray<string> => jobs.map(({ id }) => id)

/** Stores the entries of a worker with 31 attempts of a task in this minute, of which 28 failed for one cause. */
const kept = async ({ service }: Running, fingerprint: string, task: string): Promise<void> => {
  const { store } = service.client.connection
  const now = await store.now()
  const slot = Math.floor(now / SLOT_MS)
  const minute = Math.floor(now / MINUTE_MS) % SLOT_MINUTES
  const by = { worker: "other", id: "1", host: "there", pid: 1, startedAt: "", queues: [], concurrency: 1 }
  const cells = [[task, "default", `\n${minute} 3,28,0,0,0||`] as const]
  const about = { fingerprint, name: "TypeError", reason: "error", template: "no such thing", tasks: [task] }
  const counts = { queues: { default: 28 }, attempts: { "1": 28 }, minutes: Array(SLOT_MINUTES).fill(0) }
  const times = { first: now, last: now, then: { failed: 28, retrying: 0, dead: 0 } }
  await store.write([
    SLOTS.put(slotName(slot, by.worker, by.id), { ...by, since: now, at: now, cells }),
    FAILURES.put(slotName(slot, by.worker, by.id), {
      worker: by.worker,
      causes: [{ ...about, ...counts, ...times, ids: [] }],
    }),
  ])
}

/** Every page of a list. */
const all = async ({ ask }: Running, path: string): Promise<ReadonlyArray<Summary>> => {
  const jobs: Array<Summary> = []
  let cursor = ""
  do {
    const { status, body } = await ask("GET", `${path}${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`)
    if (status !== 200) throw new Error(JSON.stringify(body))
    jobs.push(...body.jobs)
    cursor = body.next ?? ""
  } while (cursor !== "")
  return jobs
}

describe("GET /v1/jobs", () => {
  test("shows jobs newest first, a page at a time, each once", async () => {
    const running = await start()
    const ids: Array<string> = []
    for (let n = 0; n < 7; n++) ids.push((await running.submit({ task: "work.echo", delay: 3600 })).body.id)
    const first = await running.ask("GET", "/v1/jobs?limit=3")
    expect(idsOf(first.body.jobs)).toEqual(ids.slice(4).reverse())
    expect(first.body.next).toEqual(expect.any(String))
    expect(idsOf(await all(running, "/v1/jobs?limit=3"))).toEqual([...ids].reverse())
    expect((await running.ask("GET", "/v1/jobs?limit=7")).body).not.toHaveProperty("next")
  })

  test("leaves out what may be long", async () => {
    const running = await start()
    const id = await finished(running, { task: "work.echo", input: { long: "x".repeat(1_000) } })
    const { body, text } = await running.ask("GET", "/v1/jobs")
    expect(body.jobs).toMatchObject([{ id, state: "succeeded", attempts: 1 }])
    expect(text).not.toContain("xxx")
    expect(body.jobs[0]).not.toHaveProperty("transitions")
  })

  test("is narrowed by each of its filters", async () => {
    const running = await start()
    const { submit, ask } = running
    const failed = await finished(running, { task: "work.fail" })
    const echo = await finished(running, { task: "work.echo" })
    const parent = (await submit({ task: "work.echo", delay: 3600 })).body.id
    const child = (await submit({ task: "work.echo", queue: "other", parentId: parent, rootId: parent })).body.id
    const ids = async (query: string) => idsOf((await ask("GET", `/v1/jobs?${query}`)).body.jobs)
    expect(await ids("state=failed")).toEqual([failed])
    expect(await ids("state=failed,succeeded")).toEqual([echo, failed])
    expect(await ids("state=failed,%20succeeded&task=work.echo")).toEqual([echo])
    expect(await ids("task=work.fail")).toEqual([failed])
    expect(await ids("queue=other")).toEqual([child])
    expect(await ids(`parent=${parent}`)).toEqual([child])
    expect(await ids(`root=${parent}`)).toEqual([child, parent])
    expect(await ids("state=expired")).toEqual([])
    const member = (await submit({ task: "work.echo", delay: 3600, group: "night" })).body.id
    expect(await ids("group=night")).toEqual([member])
    expect((await ask("POST", "/v1/jobs/cancel?group=night")).body).toMatchObject({ changed: 1 })
    const { fingerprint } = (await ask("GET", `/v1/jobs/${failed}`)).body
    expect(await ids(`error=${fingerprint}`)).toEqual([failed])
    expect(await ids("error=00000000")).toEqual([])
    expect(await ids(`idEnds=${echo.slice(-8).toUpperCase()}`)).toEqual([echo])
    const capital = (await submit({ id: "order-ABcd12EF", task: "work.echo", delay: 3600 })).body.id
    for (const end of ["ABcd12EF", "abcd12ef", "ABCD12EF"]) expect(await ids(`idEnds=${end}`)).toEqual([capital])
    const { submitted } = (await ask("GET", `/v1/jobs/${parent}`)).body.times
    expect(await ids(`since=${submitted}&idEnds=${echo.slice(-8)}`)).toEqual([])
    expect(await ids(`until=${submitted}&idEnds=${echo.slice(-8)}`)).toEqual([echo])
    expect(await ids(`until=${submitted}&parent=${parent}`)).toEqual([])
  })

  test("takes several values as a repeated parameter, and with commas between them", async () => {
    const running = await start()
    const { submit, ask } = running
    const ended = await finished(running, { task: "work.echo" })
    const waiting = (await submit({ task: "work.echo", delay: 3600 })).body.id
    await submit({ task: "work.echo", id: "gone", delay: 3600 })
    await ask("POST", "/v1/jobs/gone/cancel")
    const found = async (query: string) => [...idsOf((await ask("GET", `/v1/jobs?${query}`)).body.jobs)].sort()
    const both = [ended, waiting].sort()
    expect(await found("state=succeeded&state=scheduled")).toEqual(both)
    expect(await found("state=succeeded,scheduled")).toEqual(both)
    expect(await found("state=succeeded,scheduled&state=cancelled")).toEqual([...both, "gone"].sort())
    expect(await ask("GET", "/v1/jobs?state=succeeded&state=nowhere")).toMatchObject({
      status: 400,
      body: { field: "state" },
    })
    expect(await ask("GET", "/v1/jobs?task=work.echo&task=work.fail")).toMatchObject({
      status: 400,
      body: { code: "invalid-input", field: "task", detail: "task: is given twice" },
    })
  })

  test("says how many match, and by what it was cut", async () => {
    const running = await start()
    await running.submit(Array(120).fill({ task: "work.echo", delay: 3600 }))
    await finished(running, { task: "work.fail" })
    const total = async (query: string) => (await running.ask("GET", `/v1/jobs?limit=2&count=true&${query}`)).body.total
    expect(await total("state=failed")).toEqual({ value: 1, relation: "eq" })
    expect(await total("")).toEqual({ value: 121, relation: "eq" })
    expect(await total("task=work.echo&state=scheduled")).toEqual({ value: 120, relation: "eq" })
    expect(await total("idEnds=00000000")).toEqual({ value: 0, relation: "eq" })
    const { body } = await running.ask("GET", "/v1/jobs?limit=2&budget=4s")
    expect(body).toMatchObject({ scanned: 2, next: expect.any(String) })
    expect(body).not.toHaveProperty("total")
  })

  test("refuses a cursor of another filter", async () => {
    const running = await start()
    await running.submit(Array(5).fill({ task: "work.echo", delay: 3600 }))
    const { next } = (await running.ask("GET", "/v1/jobs?limit=2&state=scheduled")).body
    const other = await running.ask("GET", `/v1/jobs?limit=2&cursor=${encodeURIComponent(next)}`)
    expect(other).toMatchObject({ status: 400, body: { code: "invalid-input", field: "cursor" } })
  })

  test("refuses a cursor of another board, for reading and for deciding", async () => {
    const [here, there] = [await start(), await start()]
    for (const { submit } of [here, there]) await submit(Array(5).fill({ task: "work.echo", delay: 3600 }))
    const { next } = (await here.ask("GET", "/v1/jobs?limit=2&state=scheduled")).body
    const filter = `limit=2&state=scheduled&cursor=${encodeURIComponent(next)}`
    const refused = { status: 400, body: { code: "invalid-input", field: "cursor" } }
    expect(await there.ask("GET", `/v1/jobs?${filter}`)).toMatchObject(refused)
    expect(await there.ask("POST", `/v1/jobs/cancel?${filter}`)).toMatchObject(refused)
    expect((await there.ask("GET", "/v1/count?state=scheduled")).body.count).toBe(5)
    expect(await here.ask("POST", `/v1/jobs/cancel?${filter}`)).toMatchObject({ status: 202, body: { changed: 2 } })
  })

  test("stops searching when its reader goes away", async () => {
    let search: AbortSignal | undefined
    let isOver = false
    const running = await start({
      change: (transport) => {
        const list: typeof transport.jobs.list = async (query) => {
          search = query.signal
          await new Promise((resolve) => search?.addEventListener("abort", resolve))
          isOver = true
          return { records: [] }
        }
        return { ...transport, jobs: Object.assign(Object.create(transport.jobs), { list }) }
      },
    })
    const reader = new AbortController()
    const asking = running.ask("GET", "/v1/jobs", { signal: reader.signal }).catch(() => "gone")
    await eventually(async () => search !== undefined, { message: "the search began" })
    reader.abort()
    expect(await asking).toBe("gone")
    await eventually(async () => isOver, { message: "the search ended" })
  })
})

describe("bulk", () => {
  test("cancel changes what matches, and nothing else", async () => {
    const running = await start()
    const { submit, ask } = running
    const done = await finished(running, { task: "work.echo" })
    const waiting = (await submit(Array(5).fill({ task: "work.echo", delay: 3600 }))).body as ReadonlyArray<Summary>
    const other = (await submit({ task: "work.echo", delay: 3600, queue: "other" })).body.id
    const response = await ask("POST", "/v1/jobs/cancel?queue=default")
    expect(response).toMatchObject({ status: 200, body: { changed: 5, refused: [], more: false } })
    for (const { id } of waiting) expect((await ask("GET", `/v1/jobs/${id}`)).body.state).toBe("cancelled")
    expect((await ask("GET", `/v1/jobs/${done}`)).body.state).toBe("succeeded")
    expect((await ask("GET", `/v1/jobs/${other}`)).body.state).toBe("scheduled")
  })

  test("is bounded per call, says whether more is left, and goes on from there", async () => {
    const running = await start()
    await running.submit(Array(250).fill({ task: "work.echo", delay: 3600 }))
    let changed = 0
    let calls = 0
    let cursor = ""
    for (let more = true; more; calls++) {
      const { body } = await running.ask("POST", `/v1/jobs/cancel?state=scheduled${cursor}`)
      changed += body.changed
      more = body.more
      cursor = `&cursor=${encodeURIComponent(body.next)}`
      expect(body.changed).toBeLessThanOrEqual(100)
    }
    expect([changed, calls]).toEqual([250, 3])
    expect((await running.ask("GET", "/v1/jobs?state=scheduled")).body.jobs).toEqual([])
  })

  test("retry runs ended jobs again, and tells which it could not", async () => {
    const running = await start()
    const { ask, submit } = running
    const failed = [await finished(running, { task: "work.fail" }), await finished(running, { task: "work.fail" })]
    const succeeded = await finished(running, { task: "work.echo" })
    const cancelled = (await submit({ task: "work.echo", delay: 3600 })).body.id
    await ask("POST", `/v1/jobs/${cancelled}/cancel`)
    const response = await ask("POST", "/v1/jobs/retry?state=failed")
    expect(response).toMatchObject({ status: 200, body: { changed: 2, refused: [], more: false } })
    for (const id of failed) expect((await ask("GET", `/v1/jobs/${id}`)).body.run).toBe(2)
    for (const id of [succeeded, cancelled]) expect((await ask("GET", `/v1/jobs/${id}`)).body.run).toBe(1)
    // Without a state the call takes all jobs that have ended without success.
    await eventually(async () => (await ask("GET", "/v1/jobs?state=failed")).body.jobs.length === 2, {
      message: "the second runs have ended",
    })
    expect((await ask("POST", "/v1/jobs/retry?queue=default")).body).toMatchObject({ changed: 3 })
  })

  test("a dry run says what would be done, and does nothing", async () => {
    const running = await start()
    const { ask, submit } = running
    const failed = [await finished(running, { task: "work.fail" }), await finished(running, { task: "work.fail" })]
    await finished(running, { task: "work.echo" })
    await submit({ task: "work.echo", delay: 3600 })
    const { body } = await ask("POST", "/v1/jobs/retry?queue=default&dryRun=true")
    expect(body).toMatchObject({
      matches: { value: 2, relation: "eq" },
      will: 2,
      refused: {},
      changed: 0,
      by: { task: { "work.fail": 2 }, queue: { default: 2 } },
      sample: [...failed].reverse(),
      until: expect.stringMatching(/^\d{4}-.*Z$/),
    })
    for (const id of failed) expect((await ask("GET", `/v1/jobs/${id}`)).body.run).toBe(1)
    const cancel = await ask("POST", "/v1/jobs/cancel?queue=default&dryRun=true")
    expect(cancel.body).toMatchObject({ matches: { value: 1 }, will: 1, by: { task: { "work.echo": 1 } } })
    expect(await ask("POST", "/v1/jobs/retry?dryRun=true")).toMatchObject({ status: 400, body: { field: "state" } })
    const later = await ask("POST", "/v1/jobs/retry?queue=default&dryRun=true&cursor=x")
    expect(later).toMatchObject({ status: 400, body: { code: "invalid-input", field: "cursor" } })
  })

  test("a dry run means the jobs that were submitted right before it", async () => {
    const { ask, submit } = await start()
    const ids: Array<string> = []
    for (let n = 1; n <= 50; n++) {
      ids.push((await submit({ task: "work.echo", delay: 3600 })).body.id)
      const { body } = await ask("POST", "/v1/jobs/cancel?queue=default&dryRun=true")
      expect(body).toMatchObject({ will: n, changed: 0 })
      const one = await ask("POST", `/v1/jobs/cancel?ids=${ids.at(-1)}&dryRun=true`)
      expect(one.body).toMatchObject({ will: 1, changed: 0 })
    }
    const { body } = await ask("POST", "/v1/jobs/cancel?queue=default&dryRun=true")
    await submit({ task: "work.echo", delay: 3600 })
    expect((await ask("POST", `/v1/jobs/cancel?queue=default&until=${body.until}`)).body).toMatchObject({ changed: 50 })
  })

  test("jobs that are named one by one are tried, and then decided about, each once", async () => {
    const running = await start()
    const { ask, submit } = running
    const failed = await finished(running, { task: "work.fail" })
    const fine = await finished(running, { task: "work.echo" })
    const other = await finished(running, { task: "work.fail" })
    const { id: later } = (await submit({ task: "work.echo", delay: 3600 })).body
    const ids = [failed, fine, later, "none", failed].join(",")
    const dry = await ask("POST", `/v1/jobs/retry?ids=${ids}&dryRun=true`)
    expect(dry.body).toMatchObject({
      matches: { value: 3, relation: "eq" },
      will: 1,
      refused: { unsupported: 1, "job-exists": 1, "not-found": 1 },
      changed: 0,
      by: { task: { "work.fail": 1 }, queue: { default: 1 } },
      sample: [failed],
    })
    const path = `/v1/jobs/retry?ids=${ids}&until=${dry.body.until}`
    const { body } = await ask("POST", path)
    expect(body).toMatchObject({ changed: 1, ids: [failed], more: false })
    expect(body.refused.map(({ id, code }: { id: string; code: string }) => [id, code]).sort()).toEqual(
      [
        [fine, "unsupported"],
        [later, "job-exists"],
        ["none", "not-found"],
      ].sort(),
    )
    expect((await ask("GET", `/v1/jobs/${other}`)).body.run).toBe(1)
    // It has changed since, so that it is left as it is.
    await eventually(async () => (await ask("GET", `/v1/jobs/${failed}`)).body.state === "failed")
    expect((await ask("POST", path)).body).toMatchObject({ changed: 0 })
    expect((await ask("POST", `${path}&dryRun=true`)).body).toMatchObject({ will: 0, changed: 1 })
    expect((await ask("POST", `/v1/jobs/cancel?ids=${later},${failed}&dryRun=true`)).body).toMatchObject({
      will: 1,
      refused: { "already-terminal": 1 },
    })
    expect((await ask("POST", `/v1/jobs/cancel?ids=${later}`)).body).toMatchObject({ changed: 1, ids: [later] })
    expect((await ask("POST", `/v1/dead/redrive?ids=${failed}&dryRun=true`)).body).toMatchObject({
      will: 0,
      refused: { "not-found": 1 },
    })
    expect((await ask("POST", `/v1/dead/redrive?ids=${failed}`)).body.refused).toMatchObject([{ id: failed }])
    for (const [query, field] of [
      [`ids=${failed}&state=failed`, "state"],
      [`ids=${failed}&limit=5`, "limit"],
      ["ids=", "ids"],
      [`ids=${Array.from({ length: 101 }, (_, at) => at).join(",")}`, "ids"],
    ])
      expect(await ask("POST", `/v1/jobs/retry?${query}`)).toMatchObject({ status: 400, body: { field } })
    const { detail } = (await ask("POST", "/v1/jobs/retry?ids=")).body
    expect(detail).toBe("ids: must not be empty")
  })

  test("a dry run warns of what keeps the jobs from running", async () => {
    const running = await start()
    await finished(running, { task: "work.fail" })
    await running.service.client.pause("default")
    const { body } = await running.ask("POST", "/v1/jobs/retry?state=failed&dryRun=true")
    expect(body.warnings).toEqual([{ code: "paused", text: "paused queue: default" }])
  })

  test("a dry run warns of a queue from which no worker takes", async () => {
    const running = await start()
    const { id } = await running.service.client.submit("work.fail", { queue: "lonely" })
    await running.service.client.job(id).cancel()
    const { body } = await running.ask("POST", "/v1/jobs/retry?state=cancelled&dryRun=true")
    expect(body.warnings).toEqual([{ code: "no-worker", text: "no worker consumes queue lonely" }])
  })

  test("a dry run warns of a cause that is still there, of limits, and of what must not run twice", async () => {
    const slow = actor("slow", {
      methods: {
        fail: {
          limit: { rate: "1/m" },
          onLost: "fail",
          run: async (_input: { readonly tenant?: string }) => {
            throw new TypeError("no such thing")
          },
        },
        keyed: {
          limit: { rate: "1/m", key: "tenant" },
          run: async (_input: { readonly tenant?: string }) => {
            throw new TypeError("no such thing")
          },
        },
      },
    })
    const running = await start({ actors: [slow] })
    const ids = [
      await finished(running, { task: "slow.fail" }),
      await finished(running, { task: "slow.keyed", input: { tenant: "a" } }),
    ]
    const plan = async () => (await running.ask("POST", "/v1/jobs/retry?state=failed&dryRun=true")).body
    const limited = { code: "limited", text: "with the limit of slow.fail (1/m) they take about a minute" }
    const once = { code: "not-idempotent", text: 'must not run twice (onLost: "fail"): slow.fail' }
    // The worker has not written its counts yet.
    expect((await plan()).warnings).toEqual([limited, once])
    const { fingerprint } = (await running.ask("GET", `/v1/jobs/${ids[0]}`)).body
    await kept(running, fingerprint, "slow.fail")
    // The counts that were just read are used again for a second.
    const { warnings } = await eventually(async () => {
      const told = await plan()
      return told.warnings.length > 2 ? told : undefined
    })
    expect(warnings).toEqual([
      { code: "still-failing", text: "slow.fail is still failing this way: 28 of its last 31 attempts failed" },
      limited,
      once,
    ])
    expect((await running.ask("POST", "/v1/jobs/cancel?queue=default&dryRun=true")).body.warnings).toEqual([])
  })

  test("a job that fails again after the `until` of a bulk retry is not retried by it", async () => {
    const running = await start()
    const { ask } = running
    const failed = await finished(running, { task: "work.fail" })
    const { until } = (await ask("POST", "/v1/jobs/retry?state=failed&dryRun=true")).body
    const path = `/v1/jobs/retry?state=failed&until=${until}`
    expect((await ask("POST", path)).body).toMatchObject({ changed: 1, ids: [failed] })
    await eventually(async () => {
      const { body } = await ask("GET", `/v1/jobs/${failed}`)
      return body.run === 2 && body.state === "failed"
    })
    await finished(running, { task: "work.fail" })
    expect((await ask("POST", path)).body).toMatchObject({ changed: 0, ids: [], refused: [], more: false })
    expect((await ask("POST", `${path}&dryRun=true`)).body).toMatchObject({ will: 0, changed: 1 })
    // A time in the future is replaced by the present one, which the answer names.
    const later = (await ask("POST", "/v1/jobs/retry?state=failed&until=2100-01-01T00:00:00Z&dryRun=true")).body
    expect(later).toMatchObject({ will: 2 })
    expect(Date.parse(later.until)).toBeLessThanOrEqual(Date.now())
  })

  test("is refused where other jobs match than were expected, and tried with a few first", async () => {
    const running = await start()
    const { ask } = running
    await running.submit(Array(200).fill({ task: "work.echo", delay: 3600 }))
    const path = "/v1/jobs/cancel?state=scheduled&limit=5"
    const wrong = await ask("POST", `${path}&expect=190`)
    expect(wrong).toMatchObject({ status: 409, body: { code: "matches-differ", field: "expect" } })
    const first = await ask("POST", `${path}&expect=199`)
    expect(first).toMatchObject({ status: 202, body: { changed: 5, more: true } })
    const rest = await ask(
      "POST",
      `/v1/jobs/cancel?state=scheduled&limit=1000&expect=200&cursor=${encodeURIComponent(first.body.next)}`,
    )
    expect(rest.body).toMatchObject({ changed: 195, more: false })
  })

  test("a job that changes in between is reported, and does not stop the others", async () => {
    const running = await start()
    const { faults, ask, submit } = running
    const first = (await submit({ task: "work.echo", delay: 3600 })).body.id
    await submit({ task: "work.echo", delay: 3600 })
    let isFirst = true
    faults.after = async (call) => {
      if (call !== "jobs.list" || !isFirst) return
      isFirst = false
      await running.service.client.job(first).cancel()
    }
    const { body } = await ask("POST", "/v1/jobs/cancel?state=scheduled")
    expect(body).toMatchObject({ changed: 1, refused: [{ id: first, code: "already-terminal" }], more: false })
  })
})

describe("dead letters", () => {
  const given = { unknownGrace: 0 } as const
  const lenient = { prefer: "handling=lenient" }
  const dead = async (running: Running, count: number): Promise<ReadonlyArray<Summary>> => {
    for (let n = 0; n < count; n++) await running.submit({ task: "nobody.home" }, lenient)
    return eventually(
      async () => {
        const { body } = await running.ask("GET", "/v1/dead")
        return body.jobs.length === count ? body.jobs : undefined
      },
      { message: "the tasks are dead letters" },
    )
  }

  test("are listed with the reason, apart from jobs that failed by themselves", async () => {
    const running = await start(given)
    await finished(running, { task: "work.fail" })
    const jobs = await dead(running, 1)
    expect(jobs).toMatchObject([{ task: "nobody.home", state: "failed", dead: "unknown-actor" }])
    expect((await running.ask("GET", "/v1/dead?task=work.fail")).body.jobs).toEqual([])
    expect((await running.ask("GET", "/v1/dead?queue=default&limit=1")).body.jobs).toHaveLength(1)
  })

  test("are listed, counted and redriven by their reason", async () => {
    const running = await start({
      ...given,
      actors: [
        actor("picky", {
          methods: {
            no: () => {
              throw new Reject("no")
            },
          },
        }),
      ],
    })
    await dead(running, 2)
    const rejected = await finished(running, { task: "picky.no" })
    const of = async (reason: string) => (await running.ask("GET", `/v1/dead?count=true&reason=${reason}`)).body
    expect(await of("rejected")).toMatchObject({ jobs: [{ id: rejected }], total: { value: 1, relation: "eq" } })
    expect(await of("unknown-actor")).toMatchObject({ jobs: { length: 2 }, total: { value: 2, relation: "eq" } })
    expect(await of("unheard-of")).toMatchObject({ jobs: [], total: { value: 0, relation: "eq" } })
    const plan = await running.ask("POST", "/v1/dead/redrive?reason=rejected&dryRun=true")
    expect(plan.body).toMatchObject({ matches: { value: 1 }, will: 1, sample: [rejected] })
    expect((await running.ask("POST", "/v1/dead/redrive?reason=rejected")).body).toMatchObject({ ids: [rejected] })
  })

  test("are redriven, one by one or all", async () => {
    const running = await start(given)
    const jobs = await dead(running, 3)
    const one = await running.ask("POST", `/v1/dead/${jobs[0]?.id}/redrive`)
    expect(one).toMatchObject({ status: 200, body: { id: jobs[0]?.id, run: 2 } })
    await eventually(async () => (await running.ask("GET", "/v1/dead")).body.jobs.length === 3, {
      message: "it is dead again",
    })
    expect(await running.ask("POST", "/v1/dead/redrive?limit=2")).toMatchObject({
      status: 202,
      body: { changed: 2, more: true, next: expect.any(String), partial: { done: 2, left: 1 } },
    })
  })

  test("one that is none any more when it comes to it is left as it is", async () => {
    const running = await start(given)
    const [job] = await dead(running, 1)
    const { jobs } = running.service.client.connection
    let isFirst = true
    running.faults.after = async (call) => {
      if (call !== "jobs.list" || !isFirst) return
      isFirst = false
      const found = await jobs.find(job?.id ?? "")
      if (found === undefined) throw new Error("the job is gone")
      const { dead: _dead, ...record } = found.record
      await jobs.decide([{ id: record.id, expect: found.revision, record }])
    }
    expect((await running.ask("POST", "/v1/dead/redrive")).body).toMatchObject({
      changed: 0,
      refused: [{ id: job?.id, code: "matches-differ" }],
    })
  })

  test("a job that is none cannot be redriven", async () => {
    const running = await start(given)
    const id = await finished(running, { task: "work.fail" })
    expect(await running.ask("POST", `/v1/dead/${id}/redrive`)).toMatchObject({
      status: 404,
      body: { code: "not-found" },
    })
  })
})

describe("the service", () => {
  test("GET /v1/queues tells depth and age", async () => {
    const { submit, ask } = await start({ actors: [] })
    await submit([{ task: "a" }, { task: "a" }, { task: "a", delay: 3600 }, { task: "a", queue: "other" }])
    const { body } = await ask("GET", "/v1/queues")
    const queues = Object.fromEntries(body.queues.map((queue: { readonly name: string }) => [queue.name, queue]))
    expect(queues).toMatchObject({
      default: {
        depth: 2,
        scheduled: 1,
        inFlight: 0,
        oldest: expect.stringMatching(/Z$/),
        oldestAge: expect.any(Number),
      },
      other: { depth: 1, scheduled: 0 },
    })
    expect(queues.default.oldestAge).toBeLessThan(60)
  })

  test("queues are asked for once, however many look, and anew after a decision", async () => {
    const { submit, ask, faults } = await start({ actors: [] })
    await submit({ task: "a" })
    let asked = 0
    faults.after = async (call) => {
      if (call === "jobs.queues") asked++
    }
    const [one, other] = await Promise.all([ask("GET", "/v1/queues"), ask("GET", "/v1/queues")])
    expect(one.body).toEqual(other.body)
    expect(asked).toBe(1)
    await ask("POST", "/v1/queues/default/pause")
    expect((await ask("GET", "/v1/queues")).body.queues).toMatchObject([{ name: "default", paused: true }])
  })

  test("GET /v1/queues has all that client.queues() has, in one form", async () => {
    const { submit, ask, service } = await start({ actors: [] })
    await submit([
      { task: "a", queue: "first" },
      { task: "a", queue: "second" },
    ])
    await service.client.pause("second")
    const age = expect.any(Number)
    const over = (queues: ReadonlyArray<object>) => queues.map((queue) => ({ ...queue, oldestAge: age }))
    expect((await ask("GET", "/v1/queues")).body.queues).toMatchObject(over(await service.client.queues()))
  })

  test("GET /v1/workers and /v1/actors tell who is there, with schemas", async () => {
    const input = Schema.toStandardSchemaV1(Schema.Struct({ path: Schema.String }))
    const text = actor("text", {
      description: "Works on text",
      methods: { count: { input, params: ["path"], run: ({ path }) => path.length } },
    })
    const { ask } = await start({ actors: [text], name: "one", queues: ["high", "default"], concurrency: 3 })
    const workers = await eventually(
      async () => {
        const { body } = await ask("GET", "/v1/workers")
        return body.workers.length > 0 ? body.workers : undefined
      },
      { message: "the worker has told that it is there" },
    )
    expect(workers).toMatchObject([{ name: "one", queues: ["high", "default"], actors: ["text"], concurrency: 3 }])
    expect((await ask("GET", "/v1/actors")).body.actors).toMatchObject([
      {
        name: "text",
        description: "Works on text",
        methods: [{ name: "count", params: ["path"], input: { type: "object", required: ["path"] } }],
      },
    ])
  })

  test("GET /v1/info tells version, transport and limits", async () => {
    const { ask } = await start({ maxBody: 2_000 })
    expect((await ask("GET", "/v1/info")).body).toMatchObject({
      name: "callboard",
      version: VERSION,
      ready: true,
      transport: { name: "memory", durability: "none", capabilities: { bands: 10, dedupeWindow: null } },
      limits: { body: 2_000, batchBody: 32_000, batch: 1_000, page: 1_000, wait: 60, idempotencyKey: 86_400 },
    })
  })
})

describe("revocations", () => {
  test("are made, listed and lifted; what they mean is cancelled", async () => {
    const { ask, submit } = await start()
    const made = await ask("POST", "/v1/revocations", { body: { header: "tenant", values: ["acme"], ttl: "1 hour" } })
    expect(made).toMatchObject({ status: 201, body: { header: "tenant", values: ["acme"], terminate: false } })
    expect((await ask("GET", "/v1/revocations")).body).toEqual({ revocations: [made.body] })
    await eventually(
      async () => {
        const { id } = (await submit({ task: "work.echo", headers: { tenant: "acme" } })).body
        return (await ask("GET", `/v1/jobs/${id}/result?wait=5s`)).body.state === "cancelled"
      },
      { message: "the worker has heard of it" },
    )
    expect((await ask("DELETE", `/v1/revocations/${made.body.id}`)).status).toBe(204)
    expect(await ask("DELETE", `/v1/revocations/${made.body.id}`)).toMatchObject({ status: 404 })
    const wrong = await ask("POST", "/v1/revocations", { body: { header: "tenant", values: [] } })
    expect(wrong).toMatchObject({ status: 400, body: { code: "invalid-input", field: "values[0]" } })
    const unknown = await ask("POST", "/v1/revocations", { body: { header: "tenant", values: ["acme"], tll: 60 } })
    expect(unknown).toMatchObject({
      status: 400,
      body: { code: "unknown-field", field: "tll", detail: "tll is not an option of a revocation (did you mean ttl?)" },
    })
  })
})
