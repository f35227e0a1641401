/** `callboard pause|resume|purge QUEUE`, `callboard suspend|unsuspend [WORKER]`. */
import type { Command } from "commander"
import type { Client } from "../../client/client.ts"
import { numberOrText } from "../input.ts"
import { runs } from "./command.ts"

const addQueueCommand = (
  program: Command,
  name: string,
  description: string,
  done: string,
  decide: (client: Client, queue: string) => Promise<void>,
): void => {
  const command = program.command(name).description(description).argument("<queue...>", "queues")
  runs(command, ({ output, withClient }) =>
    withClient(async (client) => {
      for (const queue of command.args) await decide(client, queue)
      if (output.json) output.document(command.args.map((queue) => ({ queue, state: done })))
      else for (const queue of command.args) output.line(`${queue}  ${done}`)
    }),
  )
}

const addPurge = (program: Command): void => {
  const command = program
    .command("purge")
    .description("cancel everything that waits in a queue")
    .argument("<queue>", "the queue")
    .option("--forget", "forget the jobs as well")
  runs(command, ({ output, withClient }) => {
    const [queue = ""] = command.args
    const { forget = false } = command.opts<{ readonly forget?: true }>()
    return withClient(async (client) => {
      const purged = await client.purge(queue, { forget })
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
  addQueueCommand(program, "pause", pause, "paused", (client, queue) => client.pause(queue))
  addQueueCommand(program, "resume", "let paused queues give out tasks again", "resumed", (client, queue) =>
    client.resume(queue),
  )
  addPurge(program)
  addSuspend(program)
}
