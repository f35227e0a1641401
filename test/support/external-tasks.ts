/** Jobs under whose ids a program of Celery's publishes tasks, over a broker that both share. */
import { actor, type JobHandle, type ServeOptions } from "callboard"
import { expect } from "vitest"
import type { Message } from "../../runtime/protocol/message.ts"
import { eventually } from "./servers/process.ts"
import { start } from "./services.ts"

/** A task as Celery's client writes it. */
const celeryTask = (id: string, headers: object, args: ReadonlyArray<unknown>): Message => ({
  headers: { lang: "py", task: "till.evil", id, root_id: id, parent_id: null, retries: 0, ...headers },
  properties: { content_type: "application/json", content_encoding: "utf-8", correlation_id: id },
  body: new TextEncoder().encode(JSON.stringify([args, {}, null])),
})

/** Serves the jobs, and notes in `evil` each id under which a task of another program has run. */
export const makeTill = (evil: Array<string>) => {
  let flaky = 0
  return actor("till", {
    queue: "till",
    methods: {
      pay: (input: unknown) => ({ paid: input }),
      fail: () => {
        throw new Error("no change")
      },
      flaky: {
        retry: { max: 9, backoff: { base: 600, max: 600 } },
        run: () => {
          if (flaky++ === 0) throw new Error("once more")
        },
      },
      evil: (_: unknown, { id }) => void evil.push(id),
      slow: async (_: unknown, { signal }) => {
        await new Promise((resolve) => signal.addEventListener("abort", resolve))
        throw signal.reason
      },
    },
  })
}

/**
 * Puts tasks under the ids of jobs in several states, and expects that the jobs stay as they are. `put` hands a message to the
 * broker, for the queue `till`.
 */
export const expectKeptApart = async (
  options: ServeOptions,
  put: (message: Message) => Promise<void>,
): Promise<void> => {
  const evil: Array<string> = []
  const { client } = await start([makeTill(evil)], { concurrency: 20, ...options })
  const submit = async (task: string, more: object, state: string) => {
    const job = await client.submit(task, { input: { n: 1 }, ...more })
    await eventually(async () => (await job.find()).state === state, { message: `${task} is ${state}` })
    return job
  }
  const slow = await submit("till.slow", {}, "started")
  const cancelled = await submit("till.pay", { delay: 600 }, "scheduled")
  await cancelled.cancel()
  const jobs: ReadonlyArray<JobHandle> = [
    slow,
    cancelled,
    await submit("till.pay", {}, "succeeded"),
    await submit("till.fail", {}, "failed"),
    await submit("till.pay", { delay: 600 }, "scheduled"),
    await submit("till.flaky", {}, "scheduled"),
    await submit("till.pay", { after: [slow.id] }, "deferred"),
  ]
  const all = () => Promise.all(jobs.map((job) => job.find()))
  const before = await all()
  const forms = [
    {},
    { callboard: { run: 2 } },
    { callboard: { run: 2, submittedAt: 1, hops: 3 }, retries: 1 },
    { retries: 7 },
  ]
  for (const { id } of jobs) for (const form of forms) await put(celeryTask(id, form, [id]))
  // A retry of Celery's has the name of the task, but it cannot have been handed what is due later.
  const [due] = before.filter(({ task, state }) => task === "till.flaky" && state === "scheduled")
  await put(celeryTask(due?.id ?? "", { task: "till", meth: "flaky", retries: 3 }, ["again"]))
  const letters = async () => (await client.jobs({ dead: true, reason: "duplicate-id", limit: 1_000 })).jobs
  const count = jobs.length * forms.length + 1
  await eventually(async () => (await letters()).length >= count, {
    deadline: 30_000,
    message: "each is a dead letter",
  })
  expect(await letters()).toHaveLength(count)
  for (const { id } of jobs)
    expect(
      (await letters()).filter(({ error }) => error?.message.startsWith(`id ${id} belongs to another job`)).length,
    ).toBeGreaterThanOrEqual(forms.length)
  expect(await all()).toEqual(before)
  expect(evil).toEqual([])
  // A program of Celery's may also be the first to use an id, and may send the same task twice.
  await put(celeryTask("own", {}, ["own"]))
  await eventually(() => evil.length === 1)
  await client.job("own").result({ timeout: 20 })
  await put(celeryTask("own", {}, ["own"]))
  await eventually(async () =>
    (await client.queues()).every(({ name, depth, inFlight }) => name !== "till" || depth + inFlight === 1),
  )
  expect(evil).toEqual(["own"])
  expect(await letters()).toHaveLength(count)
}
