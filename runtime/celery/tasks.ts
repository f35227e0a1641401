/** The built-in tasks of Celery's workers, which its workflows need, as an actor. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { type ActorDefinition, actor } from "../actor/actor.ts"
import type { Job } from "../actor/job.ts"
import type { Connection } from "../connection/connection.ts"
import { CallboardError } from "../errors.ts"
import { generateId } from "../id.ts"
import { afterSuccess, type Ended, postMissing } from "../jobs/outcome/follow-ups.ts"
import { type Body, NO_EMBED } from "../protocol/body.ts"
import { parseSignature, type Signature } from "../protocol/celery/signature.ts"
import { joinedResults, metaKey, type ResultTuple } from "../protocol/celery-result.ts"
import { isMap } from "../protocol/guards.ts"
import { newTask } from "../protocol/headers.ts"
import { selectInput } from "../protocol/input.ts"
import { encoder } from "../protocol/text.ts"
import type { CeleryResults } from "../transport/celery.ts"
import { validate } from "../worker/run/call.ts"
import type { TaskNames } from "../worker/telemetry/observer.ts"
import type { ResultReporter } from "./result-reporter.ts"

export const BUILTIN_ACTOR = "celery"

interface BuiltinOptions {
  readonly names: TaskNames
  readonly reporter: ResultReporter
  readonly results: CeleryResults
  readonly connection: Connection
}

/** Seconds between two looks of `chord_unlock` at the results of a chord's members, unless the client sets an interval. */
const LOOK_S = 1
/** How often `chord_unlock` looks at most. */
const MAX_LOOKS = 10_000

export const builtinTasks = ({ names, reporter, results, connection }: BuiltinOptions): ActorDefinition => {
  /** Calls the method of a task once for each item, one after the other, inside the current job. */
  const callEach = async (
    { task, it }: Readonly<Record<string, unknown>>,
    job: Job,
    argsOf: (item: unknown) => ReadonlyArray<unknown>,
  ): Promise<ReadonlyArray<unknown>> => {
    const signature = Result.getOrThrowWith(parseSignature(task, "task"), ({ message }) => refused(message))
    if (!Array.isArray(it)) throw refused("it: must be a list")
    const method = names.method(signature.task, null)
    if (method === undefined || method.isolation !== "inline")
      throw refused(
        `${signature.task} is ${method === undefined ? "not served here" : "isolated and cannot be called from a task"}`,
      )
    const called: Array<unknown> = []
    for (const item of it) {
      job.signal.throwIfAborted()
      const args = [...argsOf(item), ...signature.args]
      const input = Result.getOrThrowWith(selectInput({ args, kwargs: signature.kwargs }, method.params), (why) =>
        refused(why.message),
      )
      const checked =
        method.input === undefined ? Result.succeed(input) : await Effect.runPromise(validate(method.input, input))
      const given = Result.getOrThrowWith(checked, ({ message }) => refused(message))
      const answer: unknown = method.run(given, job)
      called.push(isEffect(answer) ? await Effect.runPromise(answer) : await answer)
    }
    return called
  }

  /** Submits the body of a chord once all members have results. Clients use it where their back end has no counters. */
  const unlock = async (given: Readonly<Record<string, unknown>>, job: Job): Promise<void> => {
    const body = Result.getOrThrowWith(parseSignature(given.callback, "callback"), ({ message }) => refused(message))
    const nodes = encoder.encode(JSON.stringify({ result: [[given.group_id, null], given.result ?? []] }))
    const values = await joinedResults(nodes, (ids) => results.read(ids.map(metaKey)))
    if (Result.isFailure(values) && values.failure.message.endsWith("has no result"))
      throw job.retry({ after: typeof given.interval === "number" ? given.interval : LOOK_S })
    await postMissing(connection, await reporter.bodyOf(body, values, endedOf("chord_unlock", job)))
  }

  /** Submits a group of starmaps, each with `n` of the items, and resolves with the group as a result of Celery. */
  const split = async ({ task, it, n }: Readonly<Record<string, unknown>>, job: Job): Promise<ResultTuple> => {
    const signature = Result.getOrThrowWith(parseSignature(task, "task"), ({ message }) => refused(message))
    if (!Array.isArray(it)) throw refused("it: must be a list")
    const items: ReadonlyArray<unknown> = it
    if (!(typeof n === "number" && Number.isInteger(n) && n > 0)) throw refused("n: must be a whole number, 1 or more")
    const group = `${job.id}.group`
    const parts = Array.from({ length: Math.ceil(items.length / n) }, (_, at): Signature => {
      const kwargs = { task: signature, it: items.slice(at * n, (at + 1) * n) }
      // If this task is delivered again, the same jobs are there already.
      const options = { task_id: `${job.id}.${at}`, group_id: group, group_index: at }
      return { task: "celery.starmap", args: [], kwargs, options, subtask_type: null, immutable: true }
    })
    await postMissing(connection, afterSuccess({ ...NO_EMBED, callbacks: parts }, null, endedOf("chunks", job)))
    return [[group, null], parts.map(({ options }) => [[options.task_id, null], null])]
  }

  const endedOf = (method: string, job: Job): Ended => {
    const now = Date.now()
    return {
      task: newTask({ task: `${BUILTIN_ACTOR}.${method}`, id: job.id, rootId: job.rootId ?? job.id }),
      now,
      trace: undefined,
      newId: () => generateId(now),
      queueFor: (name, meth) => names.method(name, meth)?.queue ?? job.queue,
      isExternal: true,
      priorityOf: (given) => reporter.priorityOf(given),
    }
  }

  return actor(BUILTIN_ACTOR, {
    description: "Built-in tasks of Celery's workflows",
    methods: {
      starmap: (given: Readonly<Record<string, unknown>>, job) => callEach(given, job, listOf),
      map: (given: Readonly<Record<string, unknown>>, job) => callEach(given, job, (item) => [item]),
      chunks: split,
      chord_unlock: {
        params: ["group_id", "callback", "interval", "max_retries", "result"],
        retry: { max: MAX_LOOKS, on: [] },
        run: unlock,
      },
      // The body of a group that replaces a task.
      accumulate: (given: unknown) => {
        const { args, kwargs } = argumentsOf(given)
        const { index = null } = kwargs
        if (index === null) return args
        const found = typeof index === "number" ? args.at(index) : undefined
        if (found === undefined) throw refused("index: names no argument")
        return found
      },
      // Results have a time to live in the back end, so there is nothing to remove.
      backend_cleanup: () => null,
    },
  })
}

/** The arguments of a task of which a method without `params` gets one argument alone, and several as `{ args, kwargs }`. */
const argumentsOf = (given: unknown): Pick<Body, "args" | "kwargs"> => {
  const { args, kwargs } = isMap(given) ? given : {}
  return Array.isArray(args) && isMap(kwargs) ? { args, kwargs } : { args: [given], kwargs: {} }
}

const isEffect = (answer: unknown): answer is Effect.Effect<unknown, unknown> => Effect.isEffect(answer)

const listOf = (item: unknown): ReadonlyArray<unknown> => (Array.isArray(item) ? item : [item])

const refused = (message: string): CallboardError => new CallboardError("invalid-input", message)
