/**
 * Fills in what a submission leaves open, above all its queue, from the description of its actor, and makes its
 * posting.
 */
import * as Result from "effect/Result"
import { type ActorDescription, DEFAULT_QUEUE, type Directory } from "../../cluster/directory.ts"
import type { Scope } from "../../config/scopes.ts"
import { asTransportError, CallboardError } from "../../errors.ts"
import { publishFailed } from "../../jobs/receipt.ts"
import type { Placement } from "../../jobs/submission/chord.ts"
import type { ParsedSubmission } from "../../jobs/submission/submission.ts"
import { refuseUnknown } from "../../options/refuse.ts"
import type { JobPosting } from "../../protocol/message.ts"
import { DEFAULT_METHOD, resolveName, type Target } from "../../protocol/name.ts"
import { didYouMean } from "../../protocol/suggest.ts"
import { type PlanContext, plan } from "./plan.ts"

/** The circumstances of a submission, beside the task itself. */
export interface SubmitContext {
  /** The job that submits: becomes the new job's parent. */
  readonly parent?: { readonly id: string; readonly rootId: string }
  /** W3C trace context, carried along with the task. */
  readonly traceparent?: string
  /**
   * The `tracestate` beside it: dropped without a `traceparent`, and where it is malformed; 512 characters are kept.
   */
  readonly tracestate?: string
  /**
   * Store all tasks or none, as one transaction; 1,000 at most, none with `after`. Where the transport cannot, the call
   * fails with `unsupported`. Defaults to false.
   */
  readonly atomic?: boolean
  /** Refuse names that no worker is known to serve. */
  readonly strict?: boolean
  /** Accept methods that no worker of a known actor has: workers that start later may have them. Defaults to false. */
  readonly lenient?: boolean
  /** Fresh ids for submissions that name none, in order: never used before, so that nothing is looked up. */
  readonly ids?: ReadonlyArray<string>
  /** Where the task belongs, if it is part of a chord. */
  readonly placement?: Placement
  /** The scope that the caller lacks to read jobs: tasks that name a parent are refused, since handlers read it for them. */
  readonly parentNeeds?: Scope
  /** Refuse tasks whose encoded body has more bytes. */
  readonly maxBody?: number
}

/** Fails with `unknown-field` for an option of a submission that does not exist. */
export const checkSubmitContext = (context: unknown): void =>
  refuseUnknown(
    context,
    {
      atomic: true,
      lenient: true,
      strict: true,
      parent: true,
      traceparent: true,
      tracestate: true,
      ids: true,
      placement: true,
      parentNeeds: true,
      maxBody: true,
    } satisfies Record<keyof SubmitContext, true>,
    "submitMany()",
  )

type MethodDescription = ActorDescription["methods"][number]

/** The posting of a submission, or what is wrong with it. */
export type Planned = Result.Result<JobPosting, CallboardError>

export class Planner {
  readonly #directory: Directory
  readonly #taskNames: ReadonlyMap<string, string>
  readonly #origin: string
  readonly #sender: string | undefined
  readonly #isLocal = (actor: string): boolean => this.#directory.local.has(actor)

  /** The header `origin`: the process that submits, `gen<pid>@<host>`. `sender`: the client's name, if it has one. */
  constructor(
    directory: Directory,
    taskNames: ReadonlyMap<string, string>,
    { origin, sender }: { readonly origin: string; readonly sender: string | undefined },
  ) {
    this.#directory = directory
    this.#taskNames = taskNames
    this.#origin = origin
    this.#sender = sender
  }

  /**
   * The posting of a checked submission, at once where this process describes the actor and its method. Fails with what
   * is wrong with it, naming the field.
   */
  plan(submission: ParsedSubmission, id: string, now: number, context: SubmitContext): Planned | Promise<Planned> {
    const target = this.#targetOf(submission.task, submission.meth ?? null)
    // The actor may be served by another process: its description in the store names the queue.
    const actor = this.#directory.find(target.actor)
    const method = actor instanceof Promise ? undefined : methodIn(actor, target)
    return method === undefined || actor instanceof Promise
      ? this.#planUnknown(submission, target, actor, id, now, context)
      : this.#planFor(submission, actor, method, id, now, context)
  }

  /** Plans for an actor that has to be read from the store, or has no such method as far as is known. */
  async #planUnknown(
    submission: ParsedSubmission,
    target: Target,
    asked: Promise<ActorDescription | undefined> | ActorDescription | undefined,
    id: string,
    now: number,
    context: SubmitContext,
  ): Promise<Planned> {
    let actor: ActorDescription | undefined
    try {
      actor = await asked
    } catch (cause) {
      // Without the description the queue is unknown. The task is refused, since no worker may ever pull it from the
      // default one.
      if (context.strict || submission.queue === undefined)
        return Result.fail(publishFailed(id, asTransportError(cause), "none"))
    }
    const method = methodIn(actor, target)
    const isUnknown = method === undefined && !context.lenient
    if (isUnknown && (actor !== undefined || context.strict)) {
      // While a deployment is under way its actor is described as one version or the other has it.
      const isServed = actor !== undefined && (await this.#directory.isServed(target).catch(() => true))
      if (!isServed) return Result.fail(unknownActor(submission.task, target, actor, this.#directory))
    }
    return this.#planFor(submission, actor, method, id, now, context)
  }

  #planFor(
    submission: ParsedSubmission,
    actor: ActorDescription | undefined,
    method: MethodDescription | undefined,
    id: string,
    now: number,
    context: SubmitContext,
  ): Planned {
    const priority = method?.priority
    // In a process that serves the actor the worker's own check is as near, and costs the submission nothing.
    const isServedHere = actor !== undefined && this.#isLocal(actor.name)
    const isChecked = method?.exactInput === true && !context.lenient && !isServedHere
    const queue = method?.queue ?? actor?.queue ?? DEFAULT_QUEUE
    const planned: { -readonly [Field in keyof PlanContext]: PlanContext[Field] } = {
      now,
      id,
      origin: this.#origin,
      defaults: priority === undefined ? { queue } : { queue, priority },
    }
    const { parent, placement, traceparent, tracestate } = context
    if (method?.limitKey !== undefined) planned.limitKey = method.limitKey
    if (method?.params !== undefined) planned.params = method.params
    if (isChecked) planned.inputSchema = method.input
    if (this.#sender !== undefined) planned.sender = this.#sender
    if (method?.redact !== undefined) planned.redact = method.redact
    if (parent !== undefined) planned.parent = parent
    if (placement !== undefined) planned.placement = placement
    if (traceparent !== undefined) planned.traceparent = traceparent
    if (tracestate !== undefined) planned.tracestate = tracestate
    const { parentNeeds: scope } = context
    if (scope !== undefined && submission.parentId !== undefined) {
      const message = `parentId: this token lacks the scope ${scope}, which is required to name a parent`
      return Result.fail(new CallboardError("forbidden", message, { field: "parentId", scope }))
    }
    const posting = plan(submission, planned)
    const { maxBody = Number.POSITIVE_INFINITY } = context
    if (Result.isSuccess(posting) && posting.success.message.body.length > maxBody) {
      const { length } = posting.success.message.body
      return Result.fail(
        new CallboardError("too-large", `the body has ${length} bytes; at most ${maxBody} are allowed`),
      )
    }
    return posting
  }

  /** The description of the method that a task is for. Fails as the store does. */
  async methodOf(task: string, meth: string | null): Promise<MethodDescription | undefined> {
    const target = this.#targetOf(task, meth)
    return methodIn(await this.#directory.find(target.actor), target)
  }

  #targetOf(task: string, meth: string | null): Target {
    return resolveName(task, meth, this.#isLocal, this.#taskNames)
  }
}

/** A loop: a search by a function would make that function for each submission. */
const methodIn = (actor: ActorDescription | undefined, target: Target): MethodDescription | undefined => {
  if (actor === undefined) return undefined
  const name = target.meth ?? DEFAULT_METHOD
  for (const method of actor.methods) if (method.name === name) return method
  return undefined
}

const noSuchMethod = ({ actor, meth }: Target, { methods }: ActorDescription): string => {
  const name = meth ?? DEFAULT_METHOD
  const names = methods.map((method) => method.name)
  return `actor ${actor} has no method ${name}${didYouMean(name, names)} (it has ${names.join(", ")})`
}

const unknownActor = (
  task: string,
  target: Target,
  actor: ActorDescription | undefined,
  directory: Directory,
): CallboardError =>
  actor === undefined
    ? new CallboardError(
        "unknown-actor",
        `no actor ${target.actor} is known${didYouMean(target.actor, directory.local.keys())} (known: ${[...directory.local.keys()].join(", ") || "none"})`,
        { field: "task" },
      )
    : new CallboardError("unknown-actor", noSuchMethod(target, actor), { field: task.includes(".") ? "task" : "meth" })
