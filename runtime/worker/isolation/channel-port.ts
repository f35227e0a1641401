/** The port of a job whose handler is isolated. Its calls are sent to the worker, which has the transport. */
import * as Result from "effect/Result"
import type { JobLog } from "../../actor/step.ts"
import type { OwnEventFields } from "../../cluster/events.ts"
import { CallboardError } from "../../errors.ts"
import {
  HANDLE,
  HANDLE_METHODS,
  type HandleActions,
  type HandleMethod,
  handleOf,
  type JobHandle,
} from "../../jobs/handle.ts"
import type { SubmissionFields } from "../../jobs/submission/submission.ts"
import { type Outcome, valueOf } from "../../jobs/tracking/outcome.ts"
import type { JobView } from "../../jobs/view.ts"
import { LOG_LEVELS, type LogLevel } from "../../log/choices.ts"
import { ofJsonForm, renderJson } from "../../protocol/codec/json.ts"
import type { Headers } from "../../protocol/message.ts"
import type { StepPort } from "../../steps/calls.ts"
import type { JobFacts, JobPort } from "../run/job-context.ts"
import { cutLine, MAX_DETAIL, type ProcessMessage, type ProcessRequest } from "./messages.ts"

/** The channel to the worker. */
export interface WorkerChannel {
  readonly level: LogLevel
  send(received: ProcessMessage): void
  /** Calls the worker. Resolves with the value of its answer; fails with the error that the call had in the worker. */
  ask(question: Omit<Extract<ProcessMessage, { readonly kind: "ask" }>, "kind" | "question">): Promise<unknown>
}

export class ChannelPort implements JobPort {
  readonly facts: JobFacts
  readonly attempt: JobPort["attempt"]
  readonly deadline: number
  readonly headers: Headers
  meta: Readonly<Record<string, unknown>>
  readonly log: JobLog
  readonly steps: StepPort
  readonly #channel: WorkerChannel
  readonly #run: number
  readonly #progress: ProgressThrottle

  constructor(
    { run, job }: Extract<ProcessRequest, { readonly kind: "run" }>,
    { headers, meta }: Pick<JobPort, "headers" | "meta">,
    attempt: JobPort["attempt"],
    channel: WorkerChannel,
  ) {
    this.facts = job
    this.attempt = attempt
    this.deadline = job.deadline
    this.headers = headers
    this.meta = meta
    this.log = logTo(channel, run)
    this.steps = portOf(channel, run)
    this.#channel = channel
    this.#run = run
    this.#progress = new ProgressThrottle((received) => channel.send({ kind: "progress", run, ...received }))
  }

  progress(fraction: number, detail: string | undefined): void {
    this.#progress.update({ fraction, ...(detail === undefined ? {} : { detail }) })
  }

  patchMeta(patch: Readonly<Record<string, unknown>>, changed: Readonly<Record<string, unknown>>): void {
    this.meta = changed
    this.#channel.send({ kind: "meta", run: this.#run, patch: JSON.stringify(patch) })
  }

  event(type: string, fields: OwnEventFields): void {
    this.#channel.send({ kind: "event", run: this.#run, type, fields: JSON.stringify(fields) })
  }

  async submit(task: string, fields: SubmissionFields): Promise<JobHandle> {
    const texts = [renderJson(task), renderJson(fields)].map((text) => {
      if (Result.isSuccess(text)) return text.success
      throw new CallboardError("invalid-input", text.failure.message)
    })
    const args = `[${texts.join()}]`
    const id = await this.#channel.ask({ run: this.#run, object: "job", method: "submit", args })
    return this.job(String(id))
  }

  job<R>(id: string): JobHandle<R> {
    return Object.assign(handleOf<OverChannel, R>(OVER_CHANNEL, { channel: this.#channel, run: this.#run }, id), {
      events: (options?: unknown) => {
        HANDLE.events.parse(options, id)
        throw new CallboardError(
          "unsupported",
          "an isolated handler cannot follow events: wait for the outcome, or follow them in a handler without isolation",
          { id },
        )
      },
    })
  }

  /** The answer comes from the worker's own client, so its shape is not validated again. */
  async parent(): Promise<JobView | undefined> {
    const answer = await this.#channel.ask({ run: this.#run, object: "job", method: "parent", args: "[]" })
    return answer as JobView | undefined
  }

  /** Sends the last progress, if it has not been sent yet. */
  finish(): void {
    this.#progress.finish()
  }
}

/** A log whose lines the worker writes to its own log. Lines below its level are not sent. */
export const logTo = (channel: Pick<WorkerChannel, "level" | "send">, run: number): JobLog => {
  const rank = channel.level === "none" ? Number.POSITIVE_INFINITY : LOG_LEVELS.indexOf(channel.level)
  const write =
    (level: keyof JobLog) =>
    (message: string, fields?: Readonly<Record<string, unknown>>): void => {
      if (LOG_LEVELS.indexOf(level) < rank) return
      const text = fields === undefined ? undefined : fieldsText(fields)
      channel.send({
        kind: "log",
        run,
        level,
        message: cutLine(message),
        ...(text === undefined ? {} : { fields: text }),
      })
    }
  return { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") }
}

/** A log line must not fail its handler: fields that cannot be sent are replaced by a note. */
const fieldsText = (fields: Readonly<Record<string, unknown>>): string => {
  const text = renderJson(fields)
  if (Result.isFailure(text)) return JSON.stringify({ fields: "(not JSON)" })
  return text.success.length > MAX_DETAIL ? JSON.stringify({ fields: "(too long)" }) : text.success
}

/** The job's journal, which the worker writes. */
const portOf = (channel: WorkerChannel, run: number): StepPort => {
  const ask = (method: keyof StepPort, ...args: ReadonlyArray<unknown>) =>
    channel.ask({ run, object: "steps", method, args: JSON.stringify(args) })
  return {
    // The worker sends the entries as the engine wrote them.
    open: async () => (await ask("open")) as Awaited<ReturnType<StepPort["open"]>>,
    note: async (entry) => (await ask("note", entry)) as number,
    value: (name) => ask("value", name),
    markReverts: async () => {
      await ask("markReverts")
    },
    doubt: async () => {
      await ask("doubt")
    },
    began: (name, state) => void ask("began", name, state).catch(() => undefined),
    checkCancelled: async () => {
      await ask("checkCancelled")
    },
    wait: async (begun) => {
      await ask("wait", begun)
    },
    rest: async () => (await ask("rest")) as Awaited<ReturnType<StepPort["rest"]>>,
    suspend: () => void ask("suspend").catch(() => undefined),
    finished: async () => {
      await ask("finished")
    },
  }
}

interface OverChannel {
  readonly channel: WorkerChannel
  readonly run: number
}

/** Has the worker call a method of its own handle. The signal stays here: it ends the wait for the answer. */
const askWorker = async ({ channel, run }: OverChannel, id: string, method: HandleMethod, given: object) => {
  const { signal, ...options }: { readonly signal?: AbortSignal } = "signal" in HANDLE[method].options ? given : {}
  signal?.throwIfAborted()
  const args = JSON.stringify([id, signal === undefined ? given : options])
  const asked = channel.ask({ run, object: "handle", method, args })
  return signal === undefined ? asked : unlessAborted(asked, signal)
}

const outcome: HandleActions<OverChannel>["outcome"] = async (over, id, options) =>
  ofJsonForm(await askWorker(over, id, "outcome", options)) as Outcome

/** What the methods of a handle do over the channel. The answers come from the worker's own handle, so their shape is not checked again. */
const OVER_CHANNEL = {
  ...Object.fromEntries(
    HANDLE_METHODS.map((method) => [
      method,
      (over: OverChannel, id: string, given: object) => askWorker(over, id, method, given),
    ]),
  ),
  outcome,
  result: async (over, id, options) => valueOf(id, await outcome(over, id, options)),
} as HandleActions<OverChannel>

/** Settles as the promise does, or fails when the signal fires. The signal can outlive many calls, so no listener is left on it. */
const unlessAborted = <A>(promise: Promise<A>, signal: AbortSignal): Promise<A> =>
  new Promise((resolve, reject) => {
    const aborted = () => reject(signal.reason)
    signal.addEventListener("abort", aborted)
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", aborted))
  })

/** Shortest time between two progress messages; shorter than the interval at which the worker stores progress. */
const EVERY_MS = 100

interface ProgressUpdate {
  readonly fraction: number
  readonly detail?: string
}

/**
 * Sends progress a few times a second at most, always with the latest value: a handler may report it in a tight loop.
 */
class ProgressThrottle {
  readonly #send: (update: ProgressUpdate) => void
  #last: ProgressUpdate | undefined
  #sentAt = Number.NEGATIVE_INFINITY
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(send: (update: ProgressUpdate) => void) {
    this.#send = send
  }

  update(update: ProgressUpdate): void {
    this.#last = update
    const wait = this.#sentAt + EVERY_MS - performance.now()
    if (wait <= 0) this.finish()
    else this.#timer ??= setTimeout(() => this.finish(), wait)
  }

  /** Sends the latest progress if it was not sent yet. */
  finish(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#last === undefined) return
    this.#sentAt = performance.now()
    this.#send(this.#last)
    this.#last = undefined
  }
}
