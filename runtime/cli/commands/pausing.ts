/** `callboard pause|resume|purge|delete-queue QUEUE`, `callboard suspend|unsuspend [WORKER]`. */
import type { Command } from "commander"
import type { Client } from "../../client/client.ts"
import type { PurgeOptions } from "../../jobs/commands/purge.ts"
import { didYouMean } from "../../options/refuse.ts"
import { CommandFailed, EXIT, wrongUsage } from "../failure.ts"
import { canAsk, confirms, numberOrText } from "../input.ts"
import { runs } from "../invocation.ts"
import type { Output } from "../output.ts"

const addQueueCommand = (
  program: Command,
  name: string,
  description: string,
  done: string,
  decide: (client: Client, queue: string, output: Output) => Promise<void>,
): void => {
  const command = program.command(name).description(description).argument("<queue...>", "queues")
  runs(command, ({ output, withClient }) =>
    withClient(async (client) => {
      for (const queue of command.args) await decide(client, queue, output)
      if (output.json) output.document({ queues: command.args.map((name) => ({ name, paused: done === "paused" })) })
      else for (const queue of command.args) output.line(`${queue}  ${done}`)
    }),
  )
}

/** Warns that the name of a queue may be misspelt: it has no tasks, and no worker takes from it. */
const noteUnknownQueue = async (client: Client, queue: string, output: Output): Promise<void> => {
  const [queues, workers] = await Promise.all([client.queues(), client.workers()])
  const known = new Set([...queues.map(({ name }) => name), ...workers.flatMap((worker) => worker.queues)])
  if (known.has(queue)) return
  output.note(
    `no queue ${queue} is known${didYouMean(queue, known)}: nothing waits in it and no worker listens to it; it is paused all the same`,
  )
}

/** Asks before a purge (`verb`), and fails unless the answer is yes. */
const confirmPurge = async (client: Client, verb: string, queue: string, output: Output): Promise<void> => {
  const stats = (await client.queues()).find((each) => each.name === queue)
  const waiting = stats === undefined ? "everything that waits in it" : `${stats.depth + stats.scheduled} waiting tasks`
  if (output.json || !canAsk()) wrongUsage(`${verb} ${queue}: would cancel ${waiting}: say --yes`)
  if (await confirms(`${verb} ${queue}: cancel ${waiting}?`)) return
  throw new CommandFailed(EXIT.failed, `${verb} ${queue}: nothing was cancelled`)
}

/** `purge` and `delete-queue`, which cancel what waits and print the number. */
const addPurge = (
  program: Command,
  name: string,
  description: string,
  purge: (client: Client, queue: string, options: PurgeOptions) => Promise<number>,
): void => {
  const command = program
    .command(name)
    .description(description)
    .argument("<queue>", "the queue")
    .option("--forget", "forget the jobs as well")
    .option("-y, --yes", "do not ask; needed where nobody can be asked")
  runs(command, ({ output, withClient }) => {
    const [queue = ""] = command.args
    const { forget = false, yes = false } = command.opts<{ readonly forget?: true; readonly yes?: true }>()
    return withClient(async (client) => {
      if (!yes) await confirmPurge(client, name, queue, output)
      const purged = await purge(client, queue, { forget })
      if (output.json) output.document({ queue, purged })
      else output.line(String(purged))
    })
  })
}

const addSuspend = (program: Command): void => {
  const suspend = program
    .command("suspend")
    .description("let a worker, or all of them, take no more tasks; what runs goes on")
    .argument("[worker]", "its name")
    .option("--ttl <duration>", "ends by itself after this long")
  runs(suspend, ({ output, withClient }) => {
    const [worker] = suspend.args
    const { ttl } = suspend.opts<{ readonly ttl?: string }>()
    return withClient(async (client) => {
      await client.suspend(worker, ttl === undefined ? {} : { ttl: numberOrText(ttl) })
      if (output.json) output.document({ worker: worker ?? null, state: "suspended" })
      else output.line(`${worker ?? "all workers"}  suspended`)
      if (worker === undefined || (await client.workers()).some(({ name }) => name === worker)) return
      output.note(`no worker of the name ${worker} lives now; one that starts will be suspended`)
    })
  })
  const unsuspend = program
    .command("unsuspend")
    .description("let a worker, or all of them, take tasks again")
    .argument("[worker]", "its name")
  runs(unsuspend, ({ output, withClient }) => {
    const [worker] = unsuspend.args
    return withClient(async (client) => {
      await client.unsuspend(worker)
      if (output.json) output.document({ worker: worker ?? null, state: "at work again" })
      else output.line(`${worker ?? "all workers"}  at work again`)
    })
  })
}

export const addPausing = (program: Command): void => {
  const pause = "let queues take tasks and give none out"
  addQueueCommand(program, "pause", pause, "paused", async (client, queue, output) => {
    await client.pause(queue)
    await noteUnknownQueue(client, queue, output)
  })
  addQueueCommand(program, "resume", "let paused queues give out tasks again", "resumed", (client, queue) =>
    client.resume(queue),
  )
  addPurge(program, "purge", "cancel everything that waits in a queue", (client, queue, options) =>
    client.purge(queue, options),
  )
  const gone = "cancel everything that waits in a queue, and take it off the list until it is used again"
  addPurge(program, "delete-queue", gone, (client, queue, options) => client.deleteQueue(queue, options))
  addSuspend(program)
}
