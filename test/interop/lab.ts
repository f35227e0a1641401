/** The tasks of `tasks.py` as an actor, for Callboard workers. */
import { createClient } from "redis"
import { actor } from "../../runtime/mod.ts"

class LabError extends Error {
  override readonly name = "LabError"
}

class ValueError extends Error {
  override readonly name = "ValueError"
}

/** Resolves after a number of seconds, or rejects with the reason of the signal. */
const sleep = (seconds: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000)
    signal.addEventListener("abort", () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
  })

interface Two {
  readonly x: number
  readonly y: number
}

const isCall = (input: unknown): boolean =>
  typeof input === "object" && input !== null && "args" in input && "kwargs" in input

/** Makes the actor `lab`, with the same tasks as `tasks.py`. `notes`: URL of the Redis in which `lab.mark` counts its runs. */
export const labFor = (notes: string) =>
  actor("lab", {
    queue: "celery",
    start: async () => {
      const client = createClient({ url: notes })
      await client.connect()
      return client
    },
    stop: (client) => client.destroy(),
    methods: {
      mark: {
        params: ["n"],
        run: async ({ n }: { readonly n: number }, job) => {
          await job.use.hIncrBy("ran", String(n), 1)
          return [n, "ours"]
        },
      },
      add: { params: ["x", "y"], run: ({ x, y }: Two) => x + y },
      mul: { params: ["x", "y"], run: ({ x, y }: Two) => x * y },
      tsum: {
        params: ["values"],
        run: ({ values }: { readonly values: ReadonlyArray<number> }) => values.reduce((sum, each) => sum + each, 0),
      },
      echo: (input: unknown) => (isCall(input) ? input : { args: [input], kwargs: {} }),
      noop: () => null,
      fail: {
        params: ["message", "code"],
        run: ({ message = "boom" }: { readonly message?: string }) => {
          throw new LabError(message)
        },
      },
      fail_value: {
        params: ["text"],
        run: ({ text = "bad value" }: { readonly text?: string }) => {
          throw new ValueError(text)
        },
      },
      retry_twice: {
        params: ["tag", "countdown"],
        run: ({ tag, countdown }: { readonly tag: string; readonly countdown: number }, job) => {
          if (job.retries < 2) throw job.retry({ after: countdown, cause: new LabError("again") })
          return { tag, retries: job.retries }
        },
      },
      retry_forever: {
        params: ["countdown"],
        retry: { max: 1 },
        run: ({ countdown }: { readonly countdown: number }, job) => {
          throw job.retry({ after: countdown })
        },
      },
      sleep: {
        params: ["seconds"],
        run: async ({ seconds }: { readonly seconds: number }, job) => {
          await sleep(seconds, job.signal)
          return seconds
        },
      },
      soft: {
        params: ["seconds"],
        run: async ({ seconds }: { readonly seconds: number }, job) => {
          try {
            await sleep(seconds, job.signal)
            return "finished"
          } catch {
            return "soft limit reached"
          }
        },
      },
      on_error: { params: ["task_id"], run: ({ task_id }: { readonly task_id: string }) => `errback for ${task_id}` },
      told: async (_: unknown, job) => {
        job.progress(0.5, { current: 1, total: 2 })
        while ((await job.use.exists(`told:${job.id}`)) === 0) await sleep(0.05, job.signal)
        return "told"
      },
      whoami: (_input: unknown, { id, rootId, parentId, retries, queue, headers }) => ({
        id,
        root_id: rootId ?? null,
        parent_id: parentId ?? null,
        retries,
        queue,
        shadow: headers.shadow ?? null,
        correlation_id: id,
        headers: { "x-h": headers["x-h"] ?? null },
      }),
    },
  })
