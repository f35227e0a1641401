/** `callboard submit text.count '{"path": "…"}'`: submits a task, and with `--wait` waits for its end. */

import type { Command } from "commander"
import * as Result from "effect/Result"
import type { Client } from "../../client/client.ts"
import type { Config } from "../../config/table.ts"
import { DEFAULTS } from "../../config/table.ts"
import { displayUrl } from "../../connection/connect.ts"
import type { SubmittedJob } from "../../jobs/handle.ts"
import type { Submission, SubmissionFields } from "../../jobs/submission/submission.ts"
import type { Outcome } from "../../jobs/tracking/outcome.ts"
import { shellWord } from "../../log/shell-word.ts"
import { jsonForm } from "../../protocol/codec/json.ts"
import { compact, ifGiven } from "../../protocol/compact.ts"
import { resolveName } from "../../protocol/name.ts"
import { didYouMean } from "../../protocol/suggest.ts"
import { parseDuration } from "../../protocol/time.ts"
import { CommandFailed, EXIT, wrongUsage } from "../failure.ts"
import { argumentsOf, fullId, fullIds, jsonOf, numberOrText, objectOf } from "../input.ts"
import { runs } from "../invocation.ts"
import type { Output } from "../output.ts"

interface Options {
  readonly arg?: ReadonlyArray<string>
  readonly wait?: string | true
  readonly method?: string
  readonly queue?: string
  readonly priority?: string
  readonly front?: boolean
  readonly delay?: string
  readonly eta?: string
  readonly expires?: string
  readonly id?: string
  readonly unique?: boolean
  readonly after?: ReadonlyArray<string>
  readonly allowFailure?: boolean
  readonly retryMax?: string
  readonly timeLimit?: string
  readonly ttl?: string
  readonly resultTtl?: string
  readonly failureTtl?: string
  readonly shadow?: string
  readonly description?: string
  readonly parent?: string
  readonly root?: string
  readonly group?: string
  readonly meta?: string
  readonly details?: string
  readonly book?: string
  readonly header?: ReadonlyArray<string>
  readonly force?: boolean
}

const idsOf = (text: string): ReadonlyArray<string> => text.split(",").map((id) => id.trim())

/** Headers from the options. Their names are checked together with all other fields of a submission. */
const headersOf = (given: ReadonlyArray<string>): Readonly<Record<string, string>> => {
  const headers = new Map<string, string>()
  for (const text of given) {
    const at = text.indexOf("=")
    const name = text.slice(0, Math.max(0, at)).trim()
    if (name === "") wrongUsage(`--header ${text}: write name=value`)
    if (headers.has(name)) wrongUsage(`--header ${name}: is given twice`)
    headers.set(name, text.slice(at + 1))
  }
  return Object.fromEntries(headers)
}

/** A book from `name=uuid`. */
const bookOf = (text: string): NonNullable<SubmissionFields["book"]> => {
  const at = text.lastIndexOf("=")
  if (at < 1 || at === text.length - 1) wrongUsage(`--book ${text}: write name=uuid`)
  return { name: text.slice(0, at), uuid: text.slice(at + 1) }
}

/** On the command line 0 turns retries off. */
const retries = (max: number): NonNullable<SubmissionFields["retry"]> => (max === 0 ? false : { max })

/** Fields of the submission from the options. Their values are checked like those of every other submission. */
const fieldsOf = async (input: string | undefined, options: Options): Promise<SubmissionFields> => {
  const number = (text: string, flag: string): number => {
    const value = numberOrText(text)
    return typeof value === "number" ? value : wrongUsage(`${flag} ${text}: must be a number`)
  }
  return {
    ...compact({
      input: await ifGiven(input, (text) => jsonOf("the input", text)),
      meth: options.method,
      queue: options.queue,
      priority: ifGiven(options.priority, (text) => number(text, "--priority")),
      front: options.front ? true : undefined,
      delay: ifGiven(options.delay, numberOrText),
      eta: options.eta,
      expires: ifGiven(options.expires, numberOrText),
      id: options.id,
      unique: options.unique ? "id" : undefined,
      retry: ifGiven(options.retryMax, (text) => retries(number(text, "--retry-max"))),
      timeLimit: ifGiven(options.timeLimit, numberOrText),
      ttl: ifGiven(options.ttl, numberOrText),
      resultTtl: ifGiven(options.resultTtl, numberOrText),
      failureTtl: ifGiven(options.failureTtl, numberOrText),
      shadow: options.shadow,
      description: options.description,
      group: options.group,
      meta: await ifGiven(options.meta, (text) => objectOf("--meta", text)),
      details: await ifGiven(options.details, (text) => objectOf("--details", text)),
      book: ifGiven(options.book, bookOf),
      headers: ifGiven(options.header, headersOf),
    }),
    ...(options.arg === undefined ? {} : await argumentsOf(options.arg)),
  }
}

/** Whole ids of the jobs that the options name. */
const namedJobs = async (client: Client, { parent, root, after, allowFailure = false }: Options) => {
  const parents = await ifGiven(after, (ids) => fullIds(client, ids.flatMap(idsOf)))
  return compact({
    parentId: await ifGiven(parent, (id) => fullId(client, id)),
    rootId: await ifGiven(root, (id) => fullId(client, id)),
    after: ifGiven(parents, (ids) => ({ ids, allowFailure })),
  })
}

/** Longest wait, checked before the task is submitted. */
const timeoutOf = (wait: string | true | undefined): number | undefined => {
  if (wait === undefined || wait === true) return undefined
  const parsed = parseDuration(wait)
  return Result.isSuccess(parsed) ? parsed.success / 1_000 : wrongUsage(`--wait: ${parsed.failure.message}`)
}

/** Warns when no worker serves the task: it waits then, which is easily mistaken for a fault. */
const noteUnknown = async (
  client: Client,
  task: string,
  { meth }: SubmissionFields,
  taskNames: Config["taskNames"],
  output: Output,
): Promise<void> => {
  const target = resolveName(task, meth ?? null, () => false, new Map(Object.entries(taskNames ?? {})))
  const { actor, meth: method } = target
  const found = await client.directory.find(actor)
  // An actor's own name may have a dot in it.
  if (found === undefined) {
    if ((await client.directory.find(task)) !== undefined) return
    return output.note(`no running worker serves ${actor}; the task waits for one`)
  }
  if (method === null || found.methods.some(({ name }) => name === method)) return
  const advice = didYouMean(
    method,
    found.methods.map(({ name }) => name),
  )
  output.note(`no running worker serves ${actor}.${method}${advice}; the task waits for one`)
}

const printOutcome = (output: Output, id: string, ended: Outcome): void => {
  // What JSON lacks is printed in the form that HTTP shows.
  const outcome: Outcome =
    ended.state === "succeeded"
      ? { state: "succeeded", result: Result.getOrElse(jsonForm(ended.result, "result"), () => null) }
      : ended
  if (output.json) output.document({ id, ...outcome })
  else if (outcome.state === "succeeded")
    output.line(JSON.stringify(outcome.result, null, process.stdout.isTTY ? 2 : 0))
  if (outcome.state === "succeeded") return
  if (output.json) throw new CommandFailed(EXIT.failed)
  const why =
    outcome.state === "failed"
      ? `failed: ${outcome.error.name}: ${outcome.error.message}`
      : outcome.state === "gone"
        ? "has ended, but its result is not kept"
        : outcome.state === "expired"
          ? "expired before it started"
          : "was cancelled"
  throw new CommandFailed(EXIT.failed, `job ${id} ${why}; see: callboard job ${shellWord(id)}`)
}

const printReceipt = (output: Output, task: string, { id, receipt }: SubmittedJob): void => {
  if (output.json) {
    output.document(receipt)
    return
  }
  // Prints only the id, so that scripts can use it: id=$(callboard submit …).
  output.line(id)
  output.note(
    `${task}: ${receipt.duplicate ? `exists already, ${receipt.state}` : receipt.state} (durability: ${receipt.durability})\nfollow it: callboard job ${shellWord(id)} --watch`,
  )
}

/** Collects the values of an option that may be repeated. */
const collected = (text: string, before: ReadonlyArray<string> = []): ReadonlyArray<string> => [...before, text]

export const addSubmit = (program: Command): void => {
  const command = program
    .command("submit")
    .description("submit a task; prints its job id")
    .argument("<task>", "actor and method: text.count, or an actor alone for its default method")
    .argument("[input]", "input of the method: JSON, @file, or - for standard input")
    .option("--arg <value>", "argument instead of the input: text, :json, key=text, key:=json, @file", collected)
    .option("--wait [timeout]", "wait for the end and print the result; exit code 3 after the timeout")
    .option("--method <name>", "method of the actor, if it is not part of the task's name")
    .option("--queue <name>", "queue of the task (default: the actor's)")
    .option("--priority <level>", "0 to 9, 9 first (default: the method's, or 4)")
    .option("--front", "ahead of all priorities")
    .option("--delay <duration>", "delay before the job starts")
    .option("--eta <time>", "earliest start: ISO 8601")
    .option("--expires <when>", "latest start: a time, or a duration from now")
    .option("--id <id>", "id of the job; it is safe to submit again with the same id")
    .option("--unique", "refuse it while a job with its --id is kept")
    .option("--after <ids>", "jobs that must succeed before it starts, separated by commas, or repeated", collected)
    .option("--allow-failure", "with --after: start even if they fail")
    .option("--retry-max <count>", "retries after the first attempt")
    .option("--time-limit <duration>", "time limit of an attempt")
    .option("--ttl <duration>", "how long it may wait once it is due")
    .option("--result-ttl <duration>", "how long a success is kept")
    .option("--failure-ttl <duration>", "how long a failure is kept")
    .option("--shadow <name>", "name to show instead of task and method")
    .option("--description <text>", "description of this job")
    .option("--parent <id>", "parent of this job")
    .option("--root <id>", "root of the workflow of this job")
    .option("--group <name>", "group of this job, for jobs --group")
    .option("--meta <json>", "your own data, shown with the job; you and the handler can change it")
    .option("--details <json>", "data that describes the job; it never changes")
    .option("--book <name=uuid>", "the book of tasks to which this job belongs")
    .option("--force", "accept it even if no worker has the method yet, or its published schema refuses the input")
    .option("--header <name=value>", "custom header, which the handler can read; can be repeated", collected)
  runs(command, async ({ config, output, transport, withClient }) => {
    const [task = "", input] = command.args
    const options = command.opts<Options>()
    const timeout = timeoutOf(options.wait)
    if (input !== undefined && options.arg !== undefined) wrongUsage("--arg: cannot be combined with an input")
    if (options.allowFailure && options.after === undefined) wrongUsage("--allow-failure: name the jobs with --after")
    const fields: Omit<Submission, "task"> = await fieldsOf(input, options)
    await withClient(async (client) => {
      // No worker of another process can reach this transport, so the job would never run.
      if (client.connection.transport.capabilities.reach === "process") {
        wrongUsage(
          `${displayUrl(transport)} exists only in this process: use --transport to name a transport that a worker shares, such as ${DEFAULTS.transport}`,
        )
      }
      const named = { ...fields, ...(await namedJobs(client, options)) }
      const job = await client.submit(task, named, { lenient: options.force ?? false })
      if (!output.json) await noteUnknown(client, task, fields, config.taskNames, output)
      if (options.wait === undefined) return printReceipt(output, task, job)
      if (!output.json) output.note(`job ${job.id}`)
      printOutcome(output, job.id, await job.outcome(timeout === undefined ? {} : { timeout }))
    })
  })
}
