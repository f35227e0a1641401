/** A client of Celery's workers, over messages in this process. */
import { expect, test } from "vitest"
import { CeleryClient } from "../../../../runtime/celery/client.ts"
import type { CeleryMessages, CeleryResults } from "../../../../runtime/transport/celery.ts"

const client = (): { readonly client: CeleryClient; readonly queues: ReadonlyArray<string> } => {
  const queues: Array<string> = []
  const messages: CeleryMessages = {
    priorityOf: () => 0,
    submit: async (queue) => void queues.push(queue),
    broadcast: async () => undefined,
    listen: async () => undefined,
    send: async () => undefined,
    receive: async () => undefined,
    close: async () => undefined,
  }
  const results: CeleryResults = {
    read: async (keys) => keys.map(() => undefined),
    write: async () => undefined,
    watch: async () => undefined,
    close: async () => undefined,
  }
  return { client: new CeleryClient(messages, results, "celery"), queues }
}

test("an option that a task, a link or a command does not have is refused by name, and nothing is sent", async () => {
  const { client: celery, queues } = client()
  const eta = new Date(Date.now() + 3_600_000)
  const task = { args: [1, 1], eta }
  await expect(celery.submit("sums.add", task)).rejects.toThrow("eta is not an option")
  const link = { task: "sums.add", args: [1], delay: "1s" }
  const first = { task: "sums.add", args: [1, 1] }
  await expect(celery.chain(first, link)).rejects.toThrow("delay is not an option")
  await expect(celery.chain(link, first)).rejects.toThrow("delay is not an option")
  const limited = { timeLimit: { hard: 1, sfot: 1 } }
  await expect(celery.submit("sums.add", limited)).rejects.toThrow(
    "timeLimit.sfot is not an option of submit() (did you mean timeLimit.soft?)",
  )
  const options = { timeout: "1s", task_id: "a" }
  await expect(celery.control("revoke", options)).rejects.toThrow("task_id is not an option")
  expect(queues).toEqual([])
  await celery.submit("sums.add", { args: [1, 1], queue: "other", delay: "1s", expires: "2s", timeLimit: { hard: 1 } })
  await celery.chain(first, { ...first, queue: "other" })
  expect(queues).toEqual(["other", "celery"])
})
