/**
 * The durable steps of one delivery, on the worker's side: its journal, the mark in the job's record, and how the job
 * is settled where its steps are reverted. The steps themselves run where the handler does, see `StepEngine`.
 */
import * as Effect from "effect/Effect"
import type { Batcher } from "../../async/batcher.ts"
import type { Client } from "../../client/client.ts"
import { asTransportError, CallboardError } from "../../errors.ts"
import { generateId } from "../../id.ts"
import { cancelCalled } from "../../jobs/commands/cancel.ts"
import { endsOf, wakeAfter } from "../../jobs/dependencies/called.ts"
import { writeEdges } from "../../jobs/dependencies/edges.ts"
import { OUTCOME_LOST } from "../../jobs/outcome/job-error.ts"
import * as settlement from "../../jobs/outcome/settlement.ts"
import type { Log } from "../../log/log.ts"
import type { JobError, JobRecord, Reverting } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import { mailboxOf } from "../../protocol/waits.ts"
import type { BegunWait, StepPort } from "../../steps/calls.ts"
import { type Folded, fold, isWithin, unreverted } from "../../steps/fold.ts"
import { type Closed, Journal } from "../../steps/journal.ts"
import { journalPrefix, OtherVersion, type StepEntry } from "../../steps/page.ts"
import { readJournal } from "../../steps/pages.ts"
import { type Arrived, calledJobs, endedWaits, endsCalled, waitsOf, withoutTaken } from "../../steps/waits.ts"
import type { Claim, ClaimAnswer, Jobs, Settlement } from "../../transport/job-store/transport.ts"
import type { Store } from "../../transport/store.ts"
import { sleep } from "../../transport/timers.ts"
import type { ActiveDelivery, HandlerRun, RunSteps, StepChange } from "../active-delivery.ts"
import { claimWithRetries, isCancelled, isOurs, type Reaching } from "./claim.ts"

/** What the steps of a job need of its worker. */
export interface StepServices extends Reaching {
  readonly store: Store
  readonly claims: Batcher<Claim, ClaimAnswer>
  readonly worker: string
  readonly log: Log
  readonly jobs: Pick<Jobs, "find">
  readonly client: Client
  readonly stalls: {
    /** How often this process has stood still for so long that its leases may have ended. */
    freezes(): number
  }
  /** Whether the worker was told to stop, so that no further step begins here. */
  isStopping(): boolean
  readonly observers: { step(active: ActiveDelivery, change: StepChange): void }
}

const OUTCOMES = { ok: "done", err: "failed", reverted: "reverted", "revert-failed": "revert-failed" } as const

/** How long the handler in a process of its own may go on once its steps are reverted. */
const LEAVE_MS = 1_000

const DOUBT_WAIT_MS = 500

/** A wait that is over within this time is waited for in the worker: to suspend a job and to continue it costs several writes. */
const STAY_MS = 1_000

export class StepSession implements StepPort, RunSteps {
  readonly #active: ActiveDelivery
  readonly #run: HandlerRun
  readonly #services: StepServices
  readonly #journal: Journal
  readonly #fresh: boolean
  /** Names of the steps that run, or are reverted, the one that began first in front. */
  readonly #running = new Set<string>()
  /** Resolves once none of them runs any more, or the delivery was ended. */
  #idle: PromiseWithResolvers<void> | undefined
  #opening: Promise<void> | undefined
  #verified: number
  /** Whether the job was cancelled while it ran: its steps are reverted as soon as none runs any more. */
  #cancelled = false
  #finished = false
  /** Whether the handler was left so that the job is suspended. */
  #suspended = false
  /** Whether the jobs that the handler has called end, since their outcome is not awaited any more. */
  #endsCalled = false
  readonly #closing = Promise.withResolvers<void>()

  constructor(active: ActiveDelivery, run: HandlerRun, services: StepServices) {
    const { posting, task } = run
    const { from, fromStep } = task.own
    this.#active = active
    this.#run = run
    this.#services = services
    this.#fresh = active.delivery.fresh && !run.claimed
    this.#verified = services.stalls.freezes()
    this.#journal = new Journal({
      store: services.store,
      id: posting.id,
      run: posting.run,
      kept: from === undefined ? undefined : { from, fromStep },
      by: generateId(),
      fence: active.delivery.fence,
      untilReachable: (ms) => this.#untilReachable(ms),
      onClosed: (why) => this.#closed(why),
    })
  }

  /** Whether this delivery only reverts steps. */
  get isEnding(): boolean {
    return this.#journal.entries.some(({ kind }) => kind === "reverting")
  }

  async open(): ReturnType<StepPort["open"]> {
    if (this.#active.offQueue)
      throw new CallboardError("unsupported", "a method that acks early cannot have durable steps: use late acks")
    return (await this.begin()) ? this.#journal : NEVER
  }

  /** Opens the journal. Resolves with `false` where another delivery has it, or this one was ended. */
  async begin(): Promise<boolean> {
    this.#opening ??= this.#open()
    await this.#opening
    return this.#journal.closed === undefined
  }

  async #open(): Promise<void> {
    const { clock, record } = this.#run
    if (!this.#fresh)
      await this.#journal.open(clock.now(), record.claims ?? 0, async (folded) =>
        // A job that reverts its steps has ended the jobs that it has called, which must not change how its handler continues.
        folded.waits.size === 0 || folded.ending !== undefined || record.reverting !== undefined
          ? []
          : endedWaits(folded, await this.#arrived(calledJobs(folded))),
      )
    const { reverting } = record
    if (reverting === undefined || this.isEnding || this.#journal.closed !== undefined) return
    // The entry is never stored once the journal is closed.
    await Promise.race([
      this.#journal.append({ kind: "reverting", at: clock.now(), ending: reverting }),
      this.#closing.promise,
    ])
  }

  began(name: string, state: "started" | "reverting"): void {
    this.#running.add(name)
    this.#services.observers.step(this.#active, { name, state })
  }

  async note(entry: StepEntry): Promise<number> {
    // No wait of a failed try is in the journal after this entry, so a worker that takes over could not find its calls.
    if (entry.kind === "tried") await this.#endCalled(entry.step)
    await this.#journal.append(entry)
    const { kind, step: name, at, took, tries } = entry
    this.#running.delete(name)
    if (this.#running.size === 0) this.#idle?.resolve()
    if (kind === "tried") return this.#journal.bytes
    const change = { name, state: OUTCOMES[kind], at, took, tries }
    this.#services.observers.step(this.#active, "failure" in entry ? { ...change, failure: entry.failure } : change)
    return this.#journal.bytes
  }

  /** What has come for the waits of the job. Signals that were sent since it was claimed are not known here. */
  async #arrived(called: ReadonlyArray<string>): Promise<Arrived> {
    const { clock, record, posting } = this.#run
    const { connection } = this.#services.client
    const jobs = called.length === 0 ? NO_ENDS : await endsOf(connection, called)
    return { now: clock.transportNow(), retries: posting.retries, signals: record.signals ?? [], jobs }
  }

  async wait({ forMs, ...wait }: BegunWait): Promise<void> {
    const at = this.#run.clock.transportNow()
    await this.#journal.append({ kind: "wait", ...wait, at, ...(forMs === undefined ? {} : { until: at + forMs }) })
    if (this.#endsCalled) void this.#endCalled()
  }

  async rest(): Promise<ReadonlyArray<StepEntry>> {
    for (;;) {
      const { folded } = this.#journal
      const ended = endedWaits(folded, await this.#arrived([]))
      if (ended.length > 0) {
        await Promise.all(ended.map((entry) => this.#journal.append(entry)))
        return ended
      }
      const now = this.#run.clock.transportNow()
      const left = waitsOf(folded.waits.values(), now).until - now
      if (this.#run.isOver) return []
      if (left > STAY_MS) {
        const edges = calledJobs(folded).map((parent) => ({ parent, child: this.#run.posting.id }))
        // The process that ends one of these jobs finds the edge, or has ended it before `stored` looks.
        if (edges.length > 0) await writeEdges(this.#services.store, edges, this.#run.clock.now())
        return []
      }
      await sleep(Math.max(1, left), this.#active.ended)
    }
  }

  suspend(): void {
    this.#suspended = true
  }

  get step(): string | undefined {
    return this.#running.values().next().value
  }

  async value(name: string): Promise<unknown> {
    return JSON.parse(await this.#journal.value(name))
  }

  async markReverts(): Promise<void> {
    const run = this.#run
    const { delivery } = this.#active
    if (run.record.reverts) return
    const { posting, clock } = run
    const { worker } = this.#services
    const claim = {
      token: delivery.token,
      id: posting.id,
      run: posting.run,
      retries: posting.retries,
      worker,
      at: clock.now(),
      posting,
      reverts: true,
    }
    const answer = await Effect.runPromise(claimWithRetries(this.#services, claim, this.#active))
    if (answer.status === "started") {
      // The mark was stored over signals that have come since the handler began.
      const mailbox = answer.record === undefined ? {} : mailboxOf(answer.record)
      run.record = { ...run.record, ...mailbox, claims: Math.max(1, run.record.claims ?? 0), reverts: true }
      run.claimed = true
      return
    }
    if (answer.status === "finished" && answer.record.state === "cancelled") this.#active.end("cancelled")
    this.#journal.close(answer.status === "failed" ? "lost" : "superseded")
    return NEVER
  }

  doubt(): Promise<void> | undefined {
    if (this.#services.isStopping() && this.#active.canGoBack) return this.#handBack()
    return this.#services.stalls.freezes() === this.#verified ? undefined : this.#verify()
  }

  /** Hands the job back once no step runs: another worker begins the next one. */
  async #handBack(): Promise<void> {
    if (this.#running.size > 0) {
      this.#idle ??= Promise.withResolvers()
      const { promise, resolve } = this.#idle
      this.#active.ended.addEventListener("abort", () => resolve(), { once: true })
      await promise
    }
    this.#active.end("hand-back")
  }

  async #verify(): Promise<void> {
    do {
      const freezes = this.#services.stalls.freezes()
      const ours = await isOurs(this.#services.jobs, this.#active)
      if (ours) {
        this.#verified = freezes
        return
      }
      if (ours === false) {
        this.#journal.close("superseded")
        return NEVER
      }
    } while (await this.#untilReachable(DOUBT_WAIT_MS))
    this.#journal.close("lost")
    return NEVER
  }

  async #untilReachable(ms: number): Promise<boolean> {
    await this.#services.connectivity.untilConnected(ms, this.#active.ended)
    return this.#active.stop === undefined
  }

  async checkCancelled(): Promise<void> {
    if (this.#run.record.reverts && (await isCancelled(this.#services.jobs, this.#active))) this.cancel()
  }

  /** Called when the process of an isolated handler waits for it no longer. While steps are reverted the reverts follow. */
  returned(): void {
    if (!this.isEnding) this.#run.leave()
  }

  async finished(): Promise<void> {
    this.#finished = true
    // The handler was called for its reverts alone. It may wait for its signal, and its process is killed if it goes on.
    this.#run.cancel(new DOMException("its steps are reverted", "AbortError"))
    this.#run.endWithin(LEAVE_MS)
  }

  /** Called when the job is cancelled while this delivery runs it. */
  cancel(): void {
    // The handler that is called for its reverts must not have its signal fired: it would not come to all of its steps.
    if (this.isEnding || this.#run.record.reverting !== undefined) return
    this.#cancelled = true
    this.#run.cancel()
  }

  /**
   * How the job is settled after its handler: as `decided`, unless its steps are to be reverted, or were. `isCertain`: every
   * step that has begun has also ended.
   */
  settled(decided: Settlement | undefined, outcomes: StepOutcomes, isCertain: boolean): Settlement | undefined {
    const { stop } = this.#run
    if (stop === "cancelled") void this.#endCalled()
    if (stop !== undefined && stop !== "timeout") return decided
    const whole = outcomes.attempt()
    // The signals that its handler has taken are taken, however the attempt ends.
    const left = this.#withoutTaken(whole.record)
    const attempt = left === whole.record ? whole : { ...whole, record: left }
    if (this.isEnding) return this.#ended(attempt, outcomes)
    const sure = isCertain && this.#fresh && stop === undefined ? { sure: true as const } : {}
    if (this.#cancelled) return settlement.reverting(attempt, { why: "cancelled", ...sure })
    if (this.#suspended && stop === undefined)
      return settlement.suspended(attempt, waitsOf(this.#journal.folded.waits.values(), attempt.dueFrom ?? attempt.now))
    const { record } = decided ?? {}
    if (decided === undefined || record === undefined) return decided
    if (!this.#run.record.reverts) {
      const kept = this.#withoutTaken(record)
      return kept === record ? decided : { ...decided, record: kept }
    }
    const reverting = ({ error, dead }: Pick<JobRecord, "error" | "dead">): Reverting => ({
      why: "failed",
      error: error ?? { name: "Error", message: "", reason: "handler" },
      ...(dead === undefined ? {} : { dead }),
      ...sure,
    })
    // A result that the transport can never take fails the job as well, so its steps are reverted.
    this.#active.refused &&= (error: JobError) =>
      settlement.reverting(
        attempt,
        reverting({ error, ...(error.reason === OUTCOME_LOST ? { dead: error.reason } : {}) }),
      )
    return record.state === "failed" ? settlement.reverting(attempt, reverting(record)) : decided
  }

  #withoutTaken(record: JobRecord): JobRecord {
    return record.signals === undefined ? record : withoutTaken(record, this.#journal.folded.taken)
  }

  #ended(attempt: settlement.Attempt, outcomes: StepOutcomes): Settlement {
    // The handler's process died while it reverted: the claim stays open, and counts as a lost worker.
    if (!this.#finished) return { token: attempt.token, then: { kind: "hand-back", delay: 1_000 } }
    const { folded } = this.#journal
    const stuck = [...folded.steps.values()].find(({ state }) => state === "revert-failed")
    const left = unreverted(folded)
    const ending = folded.ending
    const reverted = left.length === 0 ? { reverted: true as const } : { unreverted: left }
    const ended =
      stuck !== undefined
        ? outcomes.givenUp(revertFailed(stuck.name, stuck.revertFailure?.message ?? "", ending), "revert-failed")
        : ending?.why === "failed"
          ? outcomes.givenUp(ending.error, ending.dead)
          : settlement.cancelledByReverting(attempt)
    return ended.record === undefined ? ended : { ...ended, record: { ...ended.record, ...reverted } }
  }

  /**
   * Cancels the jobs that the handler has called and that have not ended; one that it is calling now follows. Resolves with whether all
   * are cancelled, and never rejects: the sweep over the journals of ended jobs does the same.
   */
  async #endCalled(failedTry?: string): Promise<boolean> {
    this.#endsCalled ||= failedTry === undefined
    const { waits } = this.#journal.folded
    const called = calledJobs({ waits: failedTry === undefined ? waits : waitsWithin(failedTry, waits) })
    if (called.length === 0) return true
    const { jobs, client, log } = this.#services
    const { id } = this.#run.posting
    try {
      const terminated = (await jobs.find(id))?.record.terminated
      await cancelCalled(client.connection, called, terminated)
      return true
    } catch (cause) {
      log.debug("the jobs that a job has called could not be cancelled yet", { job: id, cause: String(cause) })
      return false
    }
  }

  /**
   * Called when the settlement is stored: the jobs that the job has called end with it unless it succeeds, and the journal of an
   * ended job is kept as long as its record.
   */
  async stored(record: JobRecord): Promise<void> {
    const { id, state, run, keepMs = -1, waits } = record
    // The sweep does it again as long as the journal has no time to live.
    if (run === this.#run.posting.run && endsCalled(record) && !(await this.#endCalled())) return
    if (waits?.jobs !== undefined) await wakeAfter(this.#services.client.connection, id, waits.jobs)
    if (this.#journal.closed !== undefined || (!isTerminal(state) && run === this.#run.posting.run)) return
    await this.#journal.keep(isTerminal(state) ? keepMs : 0)
  }

  #closed(why: Closed): void {
    const job = this.#run.posting.id
    if (why === "later-version") {
      this.#active.backInMs = backInMs(this.#run.record)
      const again = `in ${this.#active.backInMs / 1000} s`
      this.#services.log.warn("a job waits for a worker of the version that has written its journal", {
        job,
        again,
      })
    } else this.#services.log.debug("the journal of a job is no longer written", { job, why })
    this.#closing.resolve()
    this.#active.end(why === "superseded" ? "superseded" : "hand-back")
  }
}

const FIRST_BACK_MS = 1_000
const MAX_BACK_MS = 15_000

/** How long a job is away that only workers of another version can run: it was handed back this often of late. */
const backInMs = ({ timeline }: JobRecord): number => {
  const times = timeline.slice(-10).filter(({ reason }) => reason === "handed-back").length
  return Math.min(MAX_BACK_MS, FIRST_BACK_MS * 2 ** times)
}

/** How the worker settles a job without durable steps. */
export interface StepOutcomes {
  attempt(): settlement.Attempt
  givenUp(error: JobError, dead: string | undefined): Settlement
}

const NEVER = new Promise<never>(() => undefined)

const waitsWithin = (label: string, waits: Folded["waits"]): Folded["waits"] =>
  new Map([...waits].filter(([name]) => isWithin(label, name)))

const NO_ENDS: Arrived["jobs"] = new Map()

const revertFailed = (step: string, why: string, ending: Reverting | undefined): JobError => {
  const error =
    ending?.why === "failed" ? ending.error : { name: "Cancelled", message: "it was cancelled", reason: "cancelled" }
  const message = `${error.message} (and the revert of ${step} failed: ${why}; retry the job to continue reverting)`
  return { ...error, message, reason: "revert-failed" }
}

/**
 * How often the job was claimed since one of its deliveries has last written an entry. A job with many steps that gets
 * on is no crash loop, however many workers it has lost. `undefined` where that cannot be read now.
 */
export const idleClaims = async (
  store: Store,
  { id, run }: Pick<JobRecord, "id" | "run">,
  claims: number,
): Promise<number | undefined> => {
  try {
    return claims - fold((await readJournal(store, journalPrefix(id, run))).entries).claims
  } catch (cause) {
    return cause instanceof OtherVersion || asTransportError(cause).retryable ? undefined : claims
  }
}
