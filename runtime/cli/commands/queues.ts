/**
 * The commands about queues: `callboard queues` and `queue` show them, `queue --max-in-flight`, `pause`, `resume`, `purge` and `delete-queue` change them.
 */
import type { Command } from "commander"
import type { Client } from "../../client/client.ts"
import type { BoundedPurgeOptions, Purged } from "../../jobs/commands/purge.ts"
import { milliseconds } from "../../options/duration.ts"
import { compact } from "../../protocol/compact.ts"
import { didYouMean } from "../../protocol/suggest.ts"
import { CommandFailed, EXIT, wrongUsage } from "../failure.ts"
import { countText, spanText } from "../format.ts"
import { interruptible, notDone } from "../going-on.ts"
import { canAsk, confirms } from "../input.ts"
import { runs } from "../invocation.ts"
import type { Output } from "../output.ts"

/** One line per queue for scripts, also with how many of its jobs are kept that have ended. */
const rawLines = async (client: Client): Promise<ReadonlyArray<string>> =>
  Promise.all(
    (await client.queues()).map(async ({ name, depth, running }) => {
      const [finished, failed] = await Promise.all([
        client.count({ queue: name, states: ["succeeded"] }),
        client.count({ queue: name, states: ["failed"] }),
      ])
      return `queue ${name} ${depth}, ${running} executing, ${countText(finished)} finished, ${countText(failed)} failed`
    }),
  )

const wholeOf = (name: string, text: string): number =>
  /^\d{1,9}$/.test(text) ? Number(text) : wrongUsage(`--${name} ${text}: must be a whole number`)

/** `--max-in-flight`: a number, or `none`. Text that is no number becomes one that is refused as every other wrong one. */
const maxInFlightOf = (text: string): number | null => {
  if (text === "none") return null
  return /^\d+$/.test(text) ? Number(text) : Number.NaN
}

/** `callboard queue QUEUE`: the jobs that wait, as they will be taken, or its limit is set. */
export const addQueue = (program: Command): void => {
  const command = program
    .command("queue")
    .description("list the waiting jobs of a queue, in the order in which workers take them, or limit the queue")
    .argument("<queue>", "the queue")
    .option("--offset <count>", "skip this many jobs", "0")
    .option("--limit <count>", "number of jobs on a page", "50")
    .option("--max-in-flight <count>", "limit how many of its jobs run at a time, over all workers; none: no limit")
  runs(command, async ({ output, withClient }) => {
    const [queue = ""] = command.args
    const given = command.opts<{ readonly offset: string; readonly limit: string; readonly maxInFlight?: string }>()
    if (given.maxInFlight !== undefined) {
      const maxInFlight = maxInFlightOf(given.maxInFlight)
      await withClient(async (client) => {
        await client.limitQueue(queue, { maxInFlight })
        await noteUnknownQueue(client, queue, "limited", output)
      })
      if (output.json) return output.document({ queue, maxInFlight })
      return output.line(`${queue}  ${maxInFlight === null ? "no limit" : `at most ${maxInFlight} at a time`}`)
    }
    const offset = wholeOf("offset", given.offset)
    const range = { offset, limit: wholeOf("limit", given.limit) }
    const ids = await withClient((client) => client.waiting(queue, range))
    if (output.json) return output.document({ ids })
    const rows = ids.map((id, at) => [String(offset + at), id])
    output.table(["POSITION", "ID"], rows, `no jobs are waiting in ${queue}`)
  })
}

/** `callboard queues`: how many tasks each queue has, and the age of the oldest. */
export const addQueues = (program: Command): void => {
  const command = program
    .command("queues")
    .description("list queues with their numbers of waiting, scheduled, running and in-flight tasks")
  command.option("--raw", "one line per queue, for scripts: waiting, running, finished and failed")
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
        String(queue.running),
        String(queue.inFlight),
        queue.oldestAge === undefined ? "" : spanText(queue.oldestAge * 1_000),
        [
          ...(queue.paused ? [output.paint("paused", "yellow")] : []),
          ...(queue.maxInFlight === undefined ? [] : [`at most ${queue.maxInFlight} at a time`]),
        ].join(", "),
      ])
    output.table(["NAME", "DEPTH", "SCHEDULED", "RUNNING", "IN FLIGHT", "OLDEST", ""], rows, "no queues")
  })
}

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
const noteUnknownQueue = async (client: Client, queue: string, done: string, output: Output): Promise<void> => {
  const [queues, workers] = await Promise.all([client.queues(), client.workers()])
  const known = new Set([...queues.map(({ name }) => name), ...workers.flatMap((worker) => worker.queues)])
  if (known.has(queue)) return
  output.note(
    `no queue ${queue} is known${didYouMean(queue, known)}: it has no tasks and no worker consumes it; it is ${done} anyway`,
  )
}

/** Asks before a purge (`verb`), and fails unless the answer is yes. */
const confirmPurge = async (client: Client, verb: string, queue: string, output: Output): Promise<void> => {
  const stats = (await client.queues()).find((each) => each.name === queue)
  const waiting = stats === undefined ? "all its waiting tasks" : `${stats.depth + stats.scheduled} waiting tasks`
  if (output.json || !canAsk()) wrongUsage(`${verb} ${queue}: would cancel ${waiting}; confirm with --yes`)
  if (await confirms(`${verb} ${queue}: cancel ${waiting}?`)) return
  throw new CommandFailed(EXIT.failed, `${verb} ${queue}: nothing was cancelled`)
}

/** How long one call goes on, after which the command knows how far it came. */
const SLICE_MS = 2_000

/**
 * `purge` and `delete-queue`, which cancel what waits and print the number. Where they end before the queue is empty, it is
 * the number until then.
 */
const addPurge = (
  program: Command,
  name: string,
  description: string,
  purge: (client: Client, queue: string, options: BoundedPurgeOptions) => Promise<Purged>,
): void => {
  const command = program
    .command(name)
    .description(description)
    .argument("<queue>", "the queue")
    .option("--forget", "also delete the jobs")
    .option("--budget <duration>", "stop after this time, with exit code 6 if jobs are left (default: no limit)")
    .option("-y, --yes", "do not ask for confirmation; required without a terminal")
  runs(command, ({ output, withClient }) => {
    const [queue = ""] = command.args
    const { forget = false, yes = false, budget } = command.opts<Options>()
    const longest = budget === undefined ? Number.POSITIVE_INFINITY : milliseconds("budget", budget)
    return withClient(async (client) => {
      if (!yes) await confirmPurge(client, name, queue, output)
      await interruptible(async (signal) => {
        const end = performance.now() + longest
        let purged = 0
        const farOf = (left: string) => `${name} ${queue}: ${purged} cancelled, ${left}`
        for (;;) {
          const slice = Math.min(SLICE_MS, Math.max(0, end - performance.now())) / 1_000
          const report = await purge(client, queue, { forget, budget: slice, signal }).catch((cause: unknown) => {
            throw purged === 0 ? cause : notDone(farOf("others remain"), cause)
          })
          purged += report.purged
          // A call that cancels nothing, and leaves something, would do so again.
          const isOver = signal.aborted || performance.now() >= end || report.purged === 0
          if (report.partial !== undefined && !isOver) continue
          const { partial } = report
          const whole = partial && { done: purged, left: partial.left }
          if (output.json) output.document({ queue, purged, ...compact({ partial: whole }) })
          else output.line(String(purged))
          if (partial === undefined) return
          const paused = name === "delete-queue" ? " in the queue, which stays paused" : ""
          throw notDone(farOf(`${partial.left} left${paused}`))
        }
      })
    })
  })
}

interface Options {
  readonly forget?: true
  readonly yes?: true
  readonly budget?: string
}

export const addPausing = (program: Command): void => {
  const pause = "pause queues: they accept tasks, but workers take none"
  addQueueCommand(program, "pause", pause, "paused", async (client, queue, output) => {
    await client.pause(queue)
    await noteUnknownQueue(client, queue, "paused", output)
  })
  addQueueCommand(program, "resume", "resume paused queues", "resumed", (client, queue) => client.resume(queue))
  addPurge(program, "purge", "cancel all waiting jobs of a queue", (client, queue, options) =>
    client.purge(queue, options),
  )
  const gone = "cancel all waiting jobs of a queue, and remove it from the list until it is used again"
  addPurge(program, "delete-queue", gone, (client, queue, options) => client.deleteQueue(queue, options))
}
