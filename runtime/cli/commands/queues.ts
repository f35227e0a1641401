/** `callboard queues`: how many tasks each queue has, and the age of the oldest; `callboard queue`: what waits in one. */
import type { Command } from "commander"
import type { Client } from "../../client/client.ts"
import { wrongUsage } from "../failure.ts"
import { countText, spanText } from "../format.ts"
import { runs } from "../invocation.ts"

/** One line per queue for scripts, also with how many of its jobs are kept that have ended. */
const rawLines = async (client: Client): Promise<ReadonlyArray<string>> =>
  Promise.all(
    (await client.queues()).map(async ({ name, depth, inFlight }) => {
      const [finished, failed] = await Promise.all([
        client.count({ queue: name, states: ["succeeded"] }),
        client.count({ queue: name, states: ["failed"] }),
      ])
      return `queue ${name} ${depth}, ${inFlight} executing, ${countText(finished)} finished, ${countText(failed)} failed`
    }),
  )

const wholeOf = (name: string, text: string): number =>
  /^\d{1,9}$/.test(text) ? Number(text) : wrongUsage(`--${name} ${text}: must be a whole number`)

/** `callboard queue QUEUE`: the jobs that wait, as they will be taken. */
export const addQueue = (program: Command): void => {
  const command = program
    .command("queue")
    .description("list the jobs that wait in a queue, in the order in which they will be taken")
    .argument("<queue>", "the queue")
    .option("--offset <count>", "leave out so many, those that are taken first", "0")
    .option("--limit <count>", "jobs on a page", "50")
  runs(command, async ({ output, withClient }) => {
    const [queue = ""] = command.args
    const given = command.opts<{ readonly offset: string; readonly limit: string }>()
    const offset = wholeOf("offset", given.offset)
    const range = { offset, limit: wholeOf("limit", given.limit) }
    const ids = await withClient((client) => client.waiting(queue, range))
    if (output.json) return output.document({ ids })
    const rows = ids.map((id, at) => [String(offset + at), id])
    output.table(["POSITION", "ID"], rows, `nothing waits in ${queue}`)
  })
}

export const addQueues = (program: Command): void => {
  const command = program.command("queues").description("list queues: what waits, is scheduled and is in flight")
  command.option("--raw", "one line per queue, for scripts: what waits, runs, has finished and has failed")
  runs(command, async ({ output, withClient }) => {
    if (command.opts<{ readonly raw?: true }>().raw) {
      for (const line of await withClient(rawLines)) output.line(line)
      return
    }
    const queues = await withClient((client) => client.queues())
    if (output.json) return output.document({ queues })
    const rows = [...queues]
      .sort((a, b) => a.name.localeCompare(b.name))
      .map((queue) => [
        queue.name,
        String(queue.depth),
        String(queue.scheduled),
        String(queue.inFlight),
        queue.oldestAge === undefined ? "" : spanText(queue.oldestAge * 1_000),
        queue.paused ? output.paint("paused", "yellow") : "",
      ])
    output.table(["NAME", "DEPTH", "SCHEDULED", "IN FLIGHT", "OLDEST", ""], rows, "no queues")
  })
}
