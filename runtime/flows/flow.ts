/** Declared flows: tasks that say what they require and provide. A flow becomes the handler of a method. */
import * as Schema from "effect/Schema"
import { alwaysRevert } from "../actor/scope.ts"
import {
  type Resolved,
  type RetryController,
  type Revert,
  type Step,
  StepError,
  type StepOptions,
  type Steps,
} from "../actor/step.ts"
import type { JsonForm } from "../jobs/json-form.ts"
import { KnownFailure } from "../jobs/outcome/job-error.ts"
import { AnyFunction, AnyObject, parserOf } from "../options/check.ts"
import { whole } from "../options/fields.ts"
import { refuseInput } from "../options/refuse.ts"
import { isMap } from "../protocol/guards.ts"
import { checkName, STEP_OPTIONS } from "../steps/calls.ts"
import { controllerOf } from "../steps/scope.ts"
import { type FlowPattern, type IgnoreDepth, InvalidFlow, orderOf } from "./order.ts"
import { type FlowValues, type Part, type Provided, runParts } from "./run.ts"

export { type FlowPattern, type IgnoreDepth, InvalidFlow } from "./order.ts"
export type { FlowValues } from "./run.ts"

/** What the function gets that reverts a task: the values that the task had, and what came of it. */
export interface TaskRevert<In, Out> extends Revert<Out> {
  readonly input: In
}

/** Options of a task. `In`: the values that it takes; `Out`: those that it gives. */
export interface TaskOptions<In, Out> extends Pick<StepOptions<Out>, "retry" | "timeLimit"> {
  /** Names of the values that the function takes: of all keys of its parameter that are not optional. */
  readonly requires: ReadonlyArray<keyof In & string>
  /** Names of the values that the function gives: keys of its result that are never `undefined`. */
  readonly provides: ReadonlyArray<GivenKey<Out>>
  /** Reverts the task, as the `revert` of a step does. */
  readonly revert?: ((revert: TaskRevert<In, Out>) => unknown) | undefined
  /** Names of tasks of the same flow that come before it, besides those that provide what it requires. */
  readonly after?: ReadonlyArray<string> | undefined
  /**
   * Whether the task runs; otherwise it is ignored. Called in every run of the handler, so its answer must depend on the values
   * alone.
   */
  readonly when?: ((input: In) => boolean) | undefined
  /**
   * Which tasks are ignored with a task that `when` ignores: none (`atom`), the tasks right after it (`neighbors`), all tasks
   * after it in its flow (`flow`), or also the flows after it, and what comes after its own flow (`all`). Defaults to `all`.
   */
  readonly depth?: IgnoreDepth | undefined
}

type GivenKey<T> = { [K in keyof T & string]-?: undefined extends T[K] ? never : K }[keyof T & string]

/** A task of a flow, made by {@link task}. */
export interface FlowTask {
  readonly requires: ReadonlyArray<string>
  readonly provides: ReadonlyArray<string>
  readonly "~part": Part
}

/** A flow, made by {@link flow}. */
export interface Flow {
  readonly name: string
  /** Names of the values that its tasks require and none of them provides. */
  readonly requires: ReadonlyArray<string>
  readonly provides: ReadonlyArray<string>
  readonly "~part": Part
  readonly "~run": (job: Steps, input: FlowValues) => Promise<Provided>
}

export interface FlowOptions<V> {
  /**
   * The order of the tasks: by what they require and provide (`graph`), as they are listed (`linear`), or none (`unordered`).
   * Defaults to `graph`.
   */
  readonly pattern?: FlowPattern | undefined
  /** Tasks and flows by their names. A task is a step of this name, and a flow a scope. */
  readonly tasks: Readonly<Record<string, FlowTask | Flow>>
  /** Decides after a failure whether the flow is tried again. By default it is not. */
  readonly retry?: RetryController<V> | undefined
  /** Name under which the flow provides the value of its `retry`. */
  readonly as?: string | undefined
  /** How many tasks run at the same time, 1 or more. Defaults to all that can. */
  readonly parallel?: number | undefined
}

/** The input of a job lacks values that its flow requires. Thrown before a task runs; the job is not tried again. */
export class MissingDependencies extends KnownFailure {
  constructor(flow: string, missing: ReadonlyArray<string>) {
    const message = `flow ${flow} requires ${missing.map((value) => `"${value}"`).join(", ")}: add them to the input`
    super({ name: "MissingDependencies", message, reason: "invalid-input", field: missing[0] ?? "" }, true)
  }
}

const Names = Schema.Array(Schema.String).annotate({ message: "must be a list of names" })
const parseTask = parserOf(
  Schema.Struct({
    ...STEP_OPTIONS,
    requires: Names,
    provides: Names,
    after: Schema.optionalKey(Names),
    when: Schema.optionalKey(AnyFunction),
    depth: Schema.optionalKey(Schema.Literals(["atom", "neighbors", "flow", "all"])),
  } satisfies Record<keyof TaskOptions<never, never>, unknown>),
  "task()",
  "options",
)

const isPart = (value: unknown): value is FlowTask | Flow => isMap(value) && isMap(value["~part"])
const parseFlow = parserOf(
  Schema.Struct({
    pattern: Schema.optionalKey(Schema.Literals(["graph", "linear", "unordered"])),
    tasks: Schema.Record(
      Schema.String,
      Schema.declare(isPart).annotate({ message: "must be made by task() or flow()" }),
    ),
    retry: Schema.optionalKey(AnyObject),
    as: Schema.optionalKey(Schema.NonEmptyString),
    parallel: Schema.optionalKey(whole({ min: 1 })),
  } satisfies Record<keyof FlowOptions<never>, unknown>),
  "flow()",
  "options",
)

/**
 * A task of a flow. `run` gets the values that it requires, and returns an object with those that it provides, JSON: itself, as a
 * promise or as an Effect. The compiler compares their names with the types of `run`, but not the types of two tasks. Throws
 * `CallboardError` for a wrong option.
 *
 * @example
 * ```ts
 * const charge = task(
 *   { requires: ["total"], provides: ["payment"], revert: ({ result }) => refund(result?.payment) },
 *   async ({ total }: { total: number }, { key }: Step) => ({ payment: await pay(total, key) }),
 * )
 * ```
 */
export const task = <In extends object, R, const Required extends keyof In & string>(
  options: TaskOptions<NoInfer<In>, NoInfer<JsonForm<Resolved<R>>>> & {
    readonly requires: ReadonlyArray<Required> & AllOf<NoInfer<In>, Required>
  },
  run: (input: In, step: Step) => R,
): FlowTask => {
  const parsed = parseTask(options)
  if (typeof run !== "function") refuseInput("run", "must be a function")
  const { requires, provides, after = [], depth = "all" } = parsed
  return { requires, provides, "~part": partOf({ requires, provides, after, depth }, { ...options, run }) }
}

/** A list that lacks a key which is not optional does not compile. */
type AllOf<In, Required> = [Exclude<GivenKey<In>, Required>] extends [never]
  ? unknown
  : { readonly missing: Exclude<GivenKey<In>, Required> }

/** The functions of a task, whose types `task` has checked. */
interface ErasedTask extends Pick<StepOptions<unknown>, "retry" | "timeLimit"> {
  run(input: object, step: Step): unknown
  readonly when?: Erased<[input: object]> | undefined
  readonly revert?: Erased<[revert: TaskRevert<object, unknown>]> | undefined
}

type Erased<A extends ReadonlyArray<unknown>> = { hook(...args: A): unknown }["hook"]

const partOf = (
  { depth, ...order }: Pick<Part, "requires" | "provides" | "after"> & { readonly depth: IgnoreDepth },
  erased: ErasedTask,
): Part => {
  const { when, revert, retry, timeLimit } = erased
  return {
    kind: "task",
    ...order,
    when,
    depth: when === undefined ? undefined : depth,
    uncertain: [],
    begin: async (job, name, input) => {
      const reverting = revert && ((undo: Revert<unknown>) => revert({ ...undo, input }))
      const result = await job.step(name, (step) => erased.run(input, step), { retry, timeLimit, revert: reverting })
      return { values: providedBy(name, order.provides, result), ignoreNext: false }
    },
  }
}

/** The named values of a result, without any others. Rejects the job if one is missing: it would be missing again. */
const providedBy = (name: string, provides: ReadonlyArray<string>, result: unknown): FlowValues =>
  Object.fromEntries(
    provides.map((value) => {
      if (isMap(result) && Object.hasOwn(result, value)) return [value, result[value]]
      const message = `task ${name} has not returned "${value}", which it provides: return an object that has it`
      throw new StepError({ names: ["MissingResult", "Reject"], message })
    }),
  )

/**
 * A flow of tasks. Throws {@link InvalidFlow} if it can never run: tasks that wait for each other in a circle, two that provide
 * one value, an unknown task in `after`, a linear flow with a task that requires what comes later, an unordered one with tasks
 * that depend on each other, a task that may run without a value because the task that provides it is ignored. Throws
 * `CallboardError` for a wrong option.
 */
export const flow = <V = unknown>(name: string, options: FlowOptions<V>): Flow => {
  checkName(name)
  const { tasks, as, pattern = "graph", parallel = Number.POSITIVE_INFINITY } = parseFlow(options)
  const { retry } = options
  if (retry !== undefined) controllerOf({ retry })
  else if (as !== undefined) refuseInput("as", "names the value of `retry`, which is missing")
  for (const each of Object.keys(tasks)) checkName(each, "tasks")
  const parts = new Map(Object.entries(tasks).map(([each, { "~part": part }]) => [each, part]))
  const order = orderOf(name, parts, pattern, as)
  const provides = [...parts.values()].flatMap((part) => part.provides).concat(as ?? [])
  const required = new Set([...parts.values()].flatMap((part) => part.requires))
  const requires = [...required.difference(new Set(provides))]
  const once = (job: Steps, input: FlowValues) => runParts(parts, order, parallel, job, input)
  const scoped = <W>(job: Steps, scope: string, input: FlowValues, controller: RetryController<W>) =>
    job.scope(
      scope,
      async (inner, value) => {
        if (as === undefined) return once(inner, input)
        const done = await once(inner, { ...input, [as]: value })
        return { ...done, values: { ...done.values, [as]: value } }
      },
      { retry: controller },
    )
  return {
    name,
    requires,
    provides,
    "~part": {
      kind: "flow",
      requires,
      provides,
      after: [],
      when: undefined,
      depth: undefined,
      uncertain: order.uncertain,
      begin: (job, scope, input) =>
        retry === undefined ? scoped(job, scope, input, alwaysRevert()) : scoped(job, scope, input, retry),
    },
    "~run": (job, input) => (retry === undefined ? once(job, input) : scoped(job, name, input, retry)),
  }
}

/**
 * A flow as the handler of a method. The input of the job has the values that the flow requires, and its result those that the
 * flow provides. The job fails as `MissingDependencies` if the input lacks one.
 *
 * @example
 * ```ts
 * export default actor("order", { methods: { place: handlerOf(place) } })
 * ```
 */
export const handlerOf =
  ({ name, requires, "~run": run }: Flow) =>
  async (input: FlowValues, job: Steps): Promise<FlowValues> => {
    const missing = requires.filter((value) => !isMap(input) || !Object.hasOwn(input, value))
    if (missing.length > 0) throw new MissingDependencies(name, missing)
    return (await run(job, isMap(input) ? input : {})).values
  }
