/** Follow-ups with fields of their own: retries, time limits, expiry and errbacks, on every transport. */
import { actor, type Service, serve } from "callboard"
import { afterEach, expect, test } from "vitest"
import { eventually } from "../support/servers/process.ts"
import { onEveryBoard } from "./boards.ts"

const running: Array<Service> = []
afterEach(() => Promise.all(running.splice(0).map((service) => service.stop({ now: true }))))

const WAIT = { timeout: 60 }

onEveryBoard((newBoard) => {
  const start = async () => {
    const steps = actor("steps", {
      methods: {
        run: () => "done",
        flaky: (_input: unknown, job) => {
          if (job.retries < 2) throw new Error("not yet")
          return job.retries
        },
        slow: (_input: unknown, job) =>
          new Promise((resolve) => job.signal.addEventListener("abort", () => resolve(null), { once: true })),
        heard: {
          params: ["request", "error", "traceback"],
          run: ({ request }: { request: { id: string } }) => request.id,
        },
      },
    })
    const service = await serve({ transport: newBoard(), actors: [steps], signals: false, logLevel: "none" })
    running.push(service)
    await service.ready()
    return service.client
  }

  test("they are tried again, limited, and given up as they say", async () => {
    const client = await start()
    const callbacks = [
      { task: "steps.flaky", id: "flaky", immutable: true, retry: { max: 2, interval: 0 } },
      { task: "steps.flaky", id: "once", immutable: true, retry: false as const },
      {
        task: "steps.slow",
        id: "slow",
        immutable: true,
        timeLimit: { hard: "300 ms" },
        retry: false as const,
        errbacks: [{ task: "steps.heard", id: "heard" }],
      },
      { task: "steps.slow", id: "soft", immutable: true, timeLimit: { soft: "300 ms", hard: "20 s" } },
      { task: "steps", id: "late", immutable: true, queue: "nowhere", expires: "300 ms" },
    ]
    const chain = [{ task: "steps.flaky", id: "link", immutable: true, errbacks: [{ task: "steps.heard", id: "own" }] }]
    const errbacks = [{ task: "steps.heard" }]
    await (await client.submit("steps", { callbacks, chain, errbacks })).result(WAIT)
    for (const id of ["flaky", "once", "slow", "soft", "late", "link"])
      await eventually(() => client.job(id).find(), { deadline: 30_000, message: `${id} is submitted` })
    expect(await client.job("flaky").result(WAIT)).toBe(2)
    expect(await client.job("once").outcome(WAIT)).toMatchObject({ state: "failed", error: { message: "not yet" } })
    expect(await client.job("slow").outcome(WAIT)).toMatchObject({ state: "failed", error: { reason: "timeout" } })
    expect(await client.job("soft").outcome(WAIT)).toEqual({ state: "succeeded", result: null })
    await eventually(() => client.job("heard").find(), { deadline: 30_000, message: "the errback is submitted" })
    expect(await client.job("heard").result(WAIT)).toBe("slow")
    expect(await client.job("late").outcome(WAIT)).toEqual({ state: "expired" })
    // A link has the errbacks of its chain beside its own.
    expect(await client.job("link").outcome(WAIT)).toMatchObject({ state: "failed" })
    await eventually(() => client.job("own").find(), {
      deadline: 30_000,
      message: "the link's own errback is submitted",
    })
    await eventually(
      async () =>
        (await client.jobs({ parentId: "link" })).jobs.filter(({ name }) => name === "steps.heard").length === 2,
      { deadline: 30_000, message: "both errbacks of the link" },
    )
  })
})

test.each([
  [{ timeLimit: 0 }, "callbacks[0].timeLimit.hard"],
  [{ expires: "never" }, "callbacks[0].expires"],
  [{ retry: { interval: 1, backoff: {} } }, "callbacks[0].retry.interval"],
  [{ errbacks: [{ task: "steps.heard", queue: "a b" }] }, "callbacks[0].errbacks[0].queue"],
  [{ id: "a", errbacks: [{ task: "steps.heard", id: "a" }] }, "callbacks[0].errbacks[0].id"],
])("%j is refused, naming %s", async (fields, field) => {
  const service = await serve({ transport: "memory:", actors: [], signals: false, logLevel: "none" })
  running.push(service)
  await expect(service.client.submit("steps", { callbacks: [{ task: "steps", ...fields }] })).rejects.toMatchObject({
    code: "invalid-input",
    details: { field },
  })
})
