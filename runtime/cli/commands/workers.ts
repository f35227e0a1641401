/**
 * The commands about workers: `callboard workers` shows them, their queues, actors and load; `suspend` and `unsuspend` stop
 * them from taking tasks.
 */

import type { Command } from "commander"
import { handlersOf, type WorkerDescription } from "../../cluster/directory.ts"
import { shellWord } from "../../log/shell-word.ts"
import { oneLine, spanText } from "../format.ts"
import { numberOrText } from "../input.ts"
import { runs } from "../invocation.ts"

const COLOURS: Partial<Record<WorkerDescription["state"], "cyan" | "yellow" | "red">> = {
  busy: "cyan",
  stopping: "yellow",
  suspended: "yellow",
  blocked: "red",
  stuck: "red",
}

/** `callboard workers`: the workers that are alive, their queues and actors, and their load. */
export const addWorkers = (program: Command): void => {
  const command = program.command("workers").description("list the running workers")
  runs(command, async ({ output, withClient }) => {
    const workers = await withClient((client) => client.workers())
    if (output.json) return output.document({ workers })
    const now = Date.now()
    const rows = workers.map((worker) => [
      worker.name,
      output.paint(worker.state, COLOURS[worker.state] ?? "green"),
      `${handlersOf(worker)}/${worker.concurrency}`,
      String(worker.processed),
      String(worker.failed),
      spanText(now - Date.parse(worker.startedAt)),
      worker.queues.join(","),
      oneLine(worker.actors.join(",")),
    ])
    output.table(
      ["NAME", "STATE", "RUNNING", "PROCESSED", "FAILED", "UP", "QUEUES", "ACTORS"],
      rows,
      "no workers are running",
    )
    for (const { name, blocked } of workers) {
      if (blocked === undefined) continue
      const { since, job } = blocked
      output.note(
        `${name} has been blocked for ${spanText(now - Date.parse(since))} by ${job === undefined ? "a handler that does not yield" : `job ${job}: callboard why ${shellWord(job)}`}`,
      )
    }
  })
}

/** `callboard suspend` and `unsuspend`: whether workers take tasks. */
export const addSuspend = (program: Command): void => {
  const suspend = program
    .command("suspend")
    .description("stop a worker, or all workers, from taking tasks; running jobs continue")
    .argument("[worker]", "name of the worker")
    .option("--ttl <duration>", "ends automatically after this time")
  runs(suspend, ({ output, withClient }) => {
    const [worker] = suspend.args
    const { ttl } = suspend.opts<{ readonly ttl?: string }>()
    return withClient(async (client) => {
      await client.suspend(worker, ttl === undefined ? {} : { ttl: numberOrText(ttl) })
      if (output.json) output.document({ worker: worker ?? null, state: "suspended" })
      else output.line(`${worker ?? "all workers"}  suspended`)
      if (worker === undefined || (await client.workers()).some(({ name }) => name === worker)) return
      output.note(`no worker named ${worker} is running; it will be suspended when it starts`)
    })
  })
  const unsuspend = program
    .command("unsuspend")
    .description("let a worker, or all workers, take tasks again")
    .argument("[worker]", "name of the worker")
  runs(unsuspend, ({ output, withClient }) => {
    const [worker] = unsuspend.args
    return withClient(async (client) => {
      await client.unsuspend(worker)
      if (output.json) output.document({ worker: worker ?? null, state: "at work again" })
      else output.line(`${worker ?? "all workers"}  resumed`)
    })
  })
}
