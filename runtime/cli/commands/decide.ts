/**
 * `callboard cancel`, `retry` and `delete`: one decision about each of several jobs; `callboard revoke`: one about every job
 * with a header.
 */

import type { Command } from "commander"
import type { Client } from "../../client/client.ts"
import type { JobQuery } from "../../client/job-query.ts"
import type { Revocation } from "../../cluster/revocation.ts"
import { CallboardError, type ErrorCode } from "../../errors.ts"
import type { BulkPlan } from "../../jobs/commands/plan.ts"
import { HANDLE, type JobHandle } from "../../jobs/handle.ts"
import type { JobView } from "../../jobs/view.ts"
import { shellWord } from "../../log/shell-word.ts"
import { compact } from "../../protocol/compact.ts"
import type { State } from "../../protocol/state.ts"
import { TransportError } from "../../transport/mod.ts"
import { CommandFailed, EXIT, lineOf, wrongUsage } from "../failure.ts"
import { localTime, oneLine, stateText } from "../format.ts"
import { interruptible, notDone } from "../going-on.ts"
import { fullId, ID_HELP, jsonOf } from "../input.ts"
import { runs } from "../invocation.ts"
import type { Output } from "../output.ts"
import { statesOf } from "./jobs.ts"

interface Decided {
  readonly id: string
  readonly job?: JobView
  readonly error?: { readonly message: string; readonly code?: ErrorCode }
}

/**
 * Applies a decision to each job. A job that refuses it does not stop the others, and makes the command fail at the end. A
 * transport that cannot be reached, and a signal, end the command at once, with how far it came.
 */
export const decideAll = (
  client: Client,
  output: Output,
  ids: Iterable<string> | AsyncIterable<string>,
  decide: (handle: JobHandle) => Promise<JobView | undefined>,
  done: string,
): Promise<void> => interruptible((signal) => deciding(client, output, ids, decide, done, signal))

const deciding = async (
  client: Client,
  output: Output,
  ids: Iterable<string> | AsyncIterable<string>,
  decide: (handle: JobHandle) => Promise<JobView | undefined>,
  done: string,
  signal: AbortSignal,
): Promise<void> => {
  const all: Array<Decided> = []
  const ended = (cause?: unknown): CommandFailed => {
    if (output.json) output.document(all)
    return notDone(`${all.filter(({ error }) => error === undefined).length} ${done}, others remain`, cause)
  }
  for await (const given of ids) {
    if (signal.aborted) throw ended()
    try {
      const id = await fullId(client, given)
      const job = await decide(client.job(id))
      all.push({ id, ...compact({ job }) })
      if (!output.json) output.line(`${id}  ${job === undefined ? done : stateText(output.paint, job.state)}`)
    } catch (error) {
      if (error instanceof TransportError) throw all.length === 0 ? error : ended(error)
      const code = error instanceof CallboardError ? { code: error.code } : {}
      all.push({ id: given, error: { message: lineOf(error), ...code } })
      if (!output.json) output.note(`callboard: ${lineOf(error)}`)
    }
  }
  if (output.json) output.document(all)
  if (all.some((each) => each.error !== undefined)) throw new CommandFailed(EXIT.failed)
}

/** Name of the worker whose thread a job blocks. */
const blockedBy = async (client: Client, id: string): Promise<string | undefined> =>
  (await client.workers().catch(() => [])).find(({ blocked }) => blocked?.job === id)?.name

const goesOn = (id: string, worker: string, isTerminated: boolean): string =>
  isTerminated
    ? `its handler blocks worker ${worker}, whose process exits within ten seconds and must be restarted`
    : `its handler blocks worker ${worker} and cannot be interrupted: it keeps running until its hard time limit; to restart that worker: callboard cancel ${shellWord(id)} --terminate`

/**
 * `callboard cancel ID…`: a waiting job will not run; the signal of a running handler fires, and its outcome is
 * refused.
 */
export const addCancel = (program: Command): void => {
  const command = program.command("cancel").description("cancel jobs").argument("<id...>", ID_HELP)
  command.option("--terminate", "kill the handlers of isolated methods at once, and workers that a job blocks")
  command.option("--release", "let the jobs that wait for them start, even if they were cancelled before")
  runs(command, ({ output, withClient }) => {
    const { terminate = false, release = false } = command.opts<{
      readonly terminate?: true
      readonly release?: true
    }>()
    return withClient((client) => {
      const cancel = async (job: JobHandle) => {
        const view = await job.cancel({ terminate, release })
        const worker = output.json ? undefined : await blockedBy(client, job.id)
        if (worker !== undefined) output.note(goesOn(job.id, worker, terminate))
        return view
      }
      return decideAll(client, output, command.args, cancel, "cancelled")
    })
  })
}

/** `callboard signal ID NAME [VALUE]`: sends a value to a job. */
export const addSignal = (program: Command): void => {
  const command = program
    .command("signal")
    .description("send a value to a job whose handler waits for it, or will")
    .argument("<id>", ID_HELP)
    .argument("<name>", "name of the signal")
    .argument("[value]", "JSON, @file, or - for standard input")
    .option("--key <key>", "sent again with the same key, the signal counts once")
  runs(command, async ({ output, withClient }) => {
    const [id = "", name = "", text] = command.args
    const { key } = command.opts<{ readonly key?: string }>()
    const value = text === undefined ? undefined : await jsonOf("the value", text)
    const send = async (job: JobHandle) => {
      await job.signal(name, value, compact({ key }))
      return undefined
    }
    return withClient((client) => decideAll(client, output, [id], send, "signalled"))
  })
}

/** `callboard delete ID…`: removes jobs; a waiting job will not run, and the outcome of a running job is refused. */
export const addDelete = (program: Command): void => {
  const command = program.command("delete").description("delete jobs with their results").argument("<id...>", ID_HELP)
  command.option("--dependents", "also delete the jobs that wait for them")
  runs(command, ({ output, withClient }) => {
    const { dependents = false } = command.opts<{ readonly dependents?: true }>()
    const forget = async (job: JobHandle) => {
      await job.delete({ dependents })
      return undefined
    }
    return withClient((client) => decideAll(client, output, command.args, forget, "deleted"))
  })
}

/** Which jobs a command is about. */
export interface JobFilter {
  readonly task?: string
  readonly queue?: string
}

/** The options of a filter, without others. */
export const filterOf = ({ task, queue }: JobFilter): JobFilter => compact({ task, queue })

export const addFilter = (command: Command): Command =>
  command.option("--task <name>", "only jobs of this task").option("--queue <name>", "only jobs of this queue")

const PAGE = 200

/** Ids of all jobs of a query, read before the first is decided about: a job that fails again returns to the list. */
export const idsOf = async (
  client: Client,
  query: Omit<JobQuery, "limit" | "after">,
): Promise<ReadonlyArray<string>> => {
  const ids: Array<string> = []
  for (let after: string | undefined, more = true; more; more = after !== undefined) {
    const page = await client.jobs({ ...query, limit: PAGE, ...compact({ after }) })
    ids.push(...page.jobs.map((job) => job.id))
    after = page.next
  }
  return ids
}

interface RetryOptions extends JobFilter {
  readonly all?: true
  readonly state?: string
  readonly error?: string
  readonly dryRun?: true
  readonly tryFirst?: string
  readonly from?: string
}

/** The states of the jobs that can run again. */
const RETRYABLE: ReadonlyArray<State> = ["failed", "cancelled", "expired"]

/** How long the command waits for the end of the jobs that are tried first, in seconds. */
const TRY_SECONDS = 60

/**
 * The ids, but those after the first few only where the first few have succeeded: a fault that is still there then
 * fails a few jobs instead of all. `stopped` is called with the reason where the others are left alone.
 */
async function* triedFirst(
  client: Client,
  ids: ReadonlyArray<string>,
  first: number,
  stopped: (why: string) => void,
): AsyncGenerator<string> {
  yield* ids.slice(0, first)
  if (first > 0 && ids.length > first) {
    const ends = await Promise.allSettled(
      ids.slice(0, first).map((id) => client.job(id).outcome({ timeout: TRY_SECONDS })),
    )
    const good = ends.filter((end) => end.status === "fulfilled" && end.value.state === "succeeded").length
    if (good < first) return stopped(`${first - good} of the first ${first} did not succeed`)
  }
  yield* ids.slice(first)
}

const countOf = (text: string): number => {
  const count = Number(text)
  return Number.isInteger(count) && count >= 1
    ? count
    : wrongUsage(`--try-first ${text}: must be a whole number, 1 or more`)
}

const namesOf = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .map(([name, count]) => `${oneLine(name)} ${count}`)
    .join(", ")

/** What running these jobs again would do. */
const printPlan = ({ matches, will, refused, by, warnings }: BulkPlan, output: Output): void => {
  output.line(`${matches.relation === "gte" ? "at least " : ""}${matches.value} match, ${will} can run again`)
  if (Object.keys(refused).length > 0) output.line(`cannot: ${namesOf(refused)}`)
  if (will > 0) output.line(`tasks: ${namesOf(by.task)}`)
  if (will > 0) output.line(`queues: ${namesOf(by.queue)}`)
  for (const { text } of warnings) output.line(`${output.paint("warning", "yellow")}: ${oneLine(text)}`)
}

/** `callboard retry ID…`: starts the next run of jobs that have ended; with `--all` or filters of those that have failed. */
export const addRetry = (program: Command): void => {
  const command = addFilter(program.command("retry").description("run ended jobs again")).argument("[id...]", ID_HELP)
  command
    .option("--all", "all failed jobs, or all that match the filters")
    .option("--state <states>", "all jobs in these states: failed, cancelled, expired (default with --all: failed)")
    .option("--error <fingerprint>", "all jobs that failed for this cause, as listed by `callboard errors`")
    .option(
      "--from <step>",
      "the durable step that runs again with all after it; `start`: all; default: after the completed steps",
    )
    .option("--dry-run", "only print the plan")
    .option("--try-first <count>", "run this many first, and the others once all of these have succeeded")
  runs(command, ({ output, withClient }) => {
    const { all = false, state, error, dryRun = false, tryFirst, from, ...filter } = command.opts<RetryOptions>()
    const ids = command.args
    const isMany = all || state !== undefined || error !== undefined
    const isFiltered = filter.task !== undefined || filter.queue !== undefined
    if (isMany === ids.length > 0 || (isFiltered && !isMany)) wrongUsage("retry: name jobs, or use --all")
    const options = HANDLE.retry.parse(from === undefined || from === "start" ? { from } : { fromStep: from })
    const first = tryFirst === undefined ? 0 : countOf(tryFirst)
    const states = state === undefined ? (["failed"] as const) : statesOf(state)
    const wrong = states.find((each) => !RETRYABLE.includes(each))
    if (wrong !== undefined)
      wrongUsage(`--state ${wrong}: only jobs that are ${RETRYABLE.join(", ")} can be retried, not ${wrong}`)
    const query = { states, ...filterOf(filter), ...compact({ error }) }
    return withClient(async (client) => {
      if (dryRun) {
        const until = new Date()
        const plan = await client.planAll("retry", isMany ? { ...query, until } : { ids, until })
        return output.json ? output.document({ ...plan, until: until.toISOString() }) : printPlan(plan, output)
      }
      const chosen = isMany ? await idsOf(client, query) : ids
      if (chosen.length === 0 && !output.json) output.note(`no ${states.join(" or ")} jobs`)
      let why: string | undefined
      const tried = triedFirst(client, chosen, first, (reason) => {
        why = reason
      })
      await decideAll(client, output, tried, (job) => job.retry(options), "queued")
      if (why === undefined) return
      output.note(`callboard: ${why}: the other ${chosen.length - first} were not changed`)
      throw new CommandFailed(EXIT.failed)
    })
  })
}

interface Options {
  readonly ttl?: string
  readonly terminate?: true
  readonly list?: true
  readonly lift?: string
}

const show = (output: Output, revocations: ReadonlyArray<Revocation>): void => {
  const rows = revocations.map(({ id, header, values, until }) => [id, header, values.join(", "), localTime(until)])
  output.table(["ID", "HEADER", "VALUES", "UNTIL"], rows, "no revocations")
}

/** Groups values by header: `tenant=acme tenant=other` is one header with two values. */
const meantBy = (
  pairs: ReadonlyArray<string>,
): { readonly header: string; readonly values: [string, ...Array<string>] } => {
  const [first = "", ...others] = pairs
  const header = first.slice(0, Math.max(0, first.indexOf("=")))
  const valueOf = (pair: string): string =>
    header !== "" && pair.startsWith(`${header}=`)
      ? pair.slice(header.length + 1)
      : wrongUsage(`revoke: write header=value, with the same header in all pairs, not ${pair}`)
  return { header, values: [valueOf(first), ...others.map(valueOf)] }
}

/** `callboard revoke HEADER=VALUE…`: cancels every task with that header, until the revocation expires. */
export const addRevoke = (program: Command): void => {
  const command = program
    .command("revoke")
    .description("cancel all tasks with a header: waiting, running and future ones")
    .argument("[header=value...]", "one header, with one or more values")
    .option("--ttl <duration>", "how long it applies (default: 3 hours)")
    .option("--terminate", "kill the handlers of isolated methods at once")
    .option("--list", "show the active revocations")
    .option("--lift <id>", "end a revocation")
  runs(command, ({ output, withClient }) => {
    const { ttl, terminate, list, lift } = command.opts<Options>()
    const pairs = command.args
    if ([pairs.length > 0, list === true, lift !== undefined].filter(Boolean).length !== 1) {
      wrongUsage("revoke: use header=value, --list or --lift ID")
    }
    return withClient(async (client) => {
      if (lift !== undefined) return client.lift(lift)
      if (list) {
        const revocations = await client.revocations()
        return output.json ? output.document({ revocations }) : show(output, revocations)
      }
      const options = {
        ...meantBy(pairs),
        ...compact({ ttl, terminate }),
      }
      const revocation = await client.revoke(options)
      return output.json ? output.document(revocation) : show(output, [revocation])
    })
  })
}
