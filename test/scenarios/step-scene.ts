/** One handler with durable steps, served on memory: for the acceptance scenarios of steps. */
import { actor, type Job, type ServeOptions } from "callboard"
import { start } from "../support/services.ts"

export const WAIT = { timeout: 30 } as const

export class Declined extends Error {
  readonly limit = 5
}

/** Serves one handler and submits its job. Resolves with the ended job. */
export const runOnce = async (
  run: (input: unknown, job: Job) => unknown,
  options: object = {},
  served: Pick<ServeOptions, "transport" | "log"> = {},
) => {
  const scene = actor("scene", { methods: { run: { run, ...options } } })
  const service = await start([scene], served)
  const job = await service.client.submit("scene.run")
  const outcome = await job.outcome(WAIT)
  const view = await job.find()
  return { state: outcome.state, result: view.result, error: view.error, view, job, client: service.client }
}
