/**
 * Random walks over crash points: three workers, one that cancels and runs again, and maintenance, over a driver that is
 * stopped between all steps, loses requests and answers, and forgets its keys. Whatever happens, a job ends, each of its runs
 * has one outcome, and what follows from an outcome happens.
 */
import { expect, test } from "vitest"
import { isUndecodable, type JobPosting } from "../../../../../runtime/protocol/message.ts"
import { claimed, type JobRecord, recordOfPosting, started, step } from "../../../../../runtime/protocol/record.ts"
import { isTerminal } from "../../../../../runtime/protocol/state.ts"
import type { Committed, Driver } from "../../../../../runtime/transport/driver.ts"
import { decodeStored } from "../../../../../runtime/transport/job-store/codec.ts"
import type { JobDelivery, Jobs, Settlement } from "../../../../../runtime/transport/job-store/transport.ts"
import { withJobs } from "../../../../../runtime/transport/job-store/with-jobs.ts"
import { TransportError } from "../../../../../runtime/transport/mod.ts"
import { isHeld, LeastBoard, leastDriver, type Step } from "../../../../kit/driver/least-driver.ts"
import { posting } from "./samples.ts"

/** Fewer leave broken rules unseen. */
const STEPS = 300
/** Of each kind of driver; more are asked for by name: WALKS=3000. */
const WALKS = Number(process.env["WALKS"] ?? 150)
const never = new AbortController().signal
const ack = { kind: "ack" } as const

interface Kind {
  readonly atomic: boolean
  readonly dedupeWindow: number
}

const isCallback = (id: string): boolean => id.startsWith("C")

class Walk {
  readonly board = new LeastBoard()
  /** Every record that was stored, in order. */
  readonly log: Array<JobRecord> = []
  readonly #kind: Kind
  #seed: number
  /** Whether requests and answers are lost. */
  #faulty = true
  #waiting: Array<{ readonly actor: number; readonly go: () => void }> = []
  #actors = 0
  /** Jobs whose task a worker took off its queue before it ran, with the fence of that delivery. */
  readonly #early = new Map<string, string>()

  constructor(seed: number, kind: Kind) {
    this.#seed = seed * 7919
    this.#kind = kind
    this.board.listeners.add((news) => {
      if (news.kind === "job" && news.record !== undefined) this.log.push(decodeStored(news.record))
    })
  }

  random(): number {
    this.#seed = (Math.imul(this.#seed, 1664525) + 1013904223) >>> 0
    return this.#seed / 2 ** 32
  }

  chance(of: number): boolean {
    return this.random() < of
  }

  /** Until the walk lets this actor go on. */
  #gate(actor: number): Promise<void> {
    return this.#faulty ? new Promise((go) => this.#waiting.push({ actor, go })) : Promise.resolve()
  }

  /** A call of a driver: it may never arrive, and its answer may be lost. */
  async #call<T>(actor: number, call: () => Promise<T>, lost: () => T): Promise<T> {
    await this.#gate(actor)
    if (this.#faulty && this.chance(0.05)) return lost()
    const answer = await call()
    await this.#gate(actor)
    return this.#faulty && this.chance(0.08) ? lost() : answer
  }

  /** What an actor has of the board; its own, so that it can die alone. */
  #connect(actor: number): Jobs {
    const away = (): never => {
      throw new TransportError("unavailable", "lost", { outcome: "unknown" })
    }
    const between: Step = async () => {
      await this.#gate(actor)
      if (this.#faulty && this.chance(0.08)) away()
    }
    const { atomic, dedupeWindow } = this.#kind
    const driver = leastDriver(this.board, { lease: 1e9 }, { dedupeWindow, ...(atomic ? {} : { step: between }) })
    const faulty: Driver = {
      ...driver,
      take: (request, signal) => this.#call(actor, () => driver.take(request, signal), away),
      read: (ids, what) => this.#call(actor, () => driver.read(ids, what), away),
      commit: (commits) => {
        const lost = (): ReadonlyArray<Committed> =>
          commits.map(() => ({
            status: "failed",
            error: new TransportError("unavailable", "", { outcome: "unknown" }),
          }))
        return this.#call(actor, () => driver.commit(commits), lost)
      },
    }
    return withJobs(faulty, { lease: 1e9 }).jobs
  }

  /** Starts an actor; it ends when its gates are never opened again. */
  #start(run: (actor: number, jobs: Jobs) => Promise<void>): number {
    const actor = ++this.#actors
    run(actor, this.#connect(actor)).catch((thrown: unknown) => {
      this.failure ??= thrown
    })
    return actor
  }
  failure: unknown

  async run(): Promise<ReadonlyArray<string>> {
    await this.#connect(0).publish([posting(1, 0, 0, "J")])
    const work = () => this.#start((actor, jobs) => this.#work(actor, jobs, false))
    const alive = [work(), work(), work()]
    this.#start((actor, jobs) => this.#outside(actor, jobs))
    this.#start((actor, jobs) => this.#maintain(actor, jobs))
    for (let at = 0; at < STEPS; at++) {
      const dice = this.random()
      if (dice < 0.04) this.#lapse()
      else if (dice < 0.07) {
        const nth = Math.floor(this.random() * alive.length)
        const dead = alive[nth]
        this.#waiting = this.#waiting.filter(({ actor }) => actor !== dead)
        alive[nth] = work()
      } else {
        const [next] = this.#waiting.splice(Math.floor(this.random() * this.#waiting.length), 1)
        next?.go()
      }
      await settled()
    }
    // All workers die and their leases end; then a healthy worker and maintenance go on.
    this.#waiting = []
    this.#faulty = false
    const jobs = this.#connect(0)
    for (let round = 0; round < 12; round++) {
      for (const task of this.board.tasks) task.until = 0
      await this.#work(0, jobs, true)
      await mend(jobs)
      await this.#endLost(jobs)
    }
    if (this.failure !== undefined) throw this.failure
    return this.#faults()
  }

  /** The lease of one task ends. */
  #lapse(): void {
    const held = [...this.board.tasks].filter(isHeld)
    const task = held[Math.floor(this.random() * held.length)]
    if (task !== undefined) task.until = 0
  }

  async #work(actor: number, jobs: Jobs, healthy: boolean): Promise<void> {
    for (;;) {
      const [delivery] = await jobs.take({ queues: ["q"], max: 1, wait: 0 }, never).catch(() => [])
      if (delivery !== undefined) await this.#attempt(actor, jobs, delivery, healthy)
      else if (healthy) return
      await this.#gate(actor)
    }
  }

  async #attempt(actor: number, jobs: Jobs, delivery: JobDelivery, healthy: boolean): Promise<void> {
    const { token, fence, fresh, message } = delivery
    if (isUndecodable(message)) throw new Error("only tasks are posted here")
    const of = postingIn(message)
    const at = Date.now()
    const begins = { fence, worker: `w${actor}`, at }
    const waiting = recordOfPosting(of, at)
    if (waiting._tag === "Failure") throw new Error(waiting.failure.message)
    let record = started(waiting.success, begins)
    if (!fresh) {
      const { id, run, retries } = of
      const answer = await this.#insist(actor, async () => {
        const [one] = await jobs.claim([{ token, id, run, retries, worker: `w${actor}`, at, posting: of }])
        return one?.status === "failed" ? undefined : one
      })
      if (answer?.status === "finished") {
        const { followUps = [] } = answer.record
        await this.#settle(actor, jobs, { token, followUps, then: ack })
      }
      if (answer?.status !== "started") return
      record = claimed(answer.record ?? waiting.success, begins)
    }
    for (let pause = Math.floor(this.random() * 6); pause > 0; pause--) await this.#gate(actor)
    const early = !healthy && this.chance(0.15)
    if (early) {
      record = { ...record, acked: true }
      this.#early.set(of.id, fence)
      if ((await this.#settle(actor, jobs, { token, record, then: ack })) === "superseded") return
    }
    await this.#settle(actor, jobs, this.#outcome(delivery, of, record, healthy, early))
  }

  #outcome(
    { token, fresh }: JobDelivery,
    of: JobPosting,
    { acked: _acked, message: _message, ...record }: JobRecord,
    healthy: boolean,
    early: boolean,
  ): Settlement {
    const ends = (followUps: ReadonlyArray<JobPosting>): Settlement => ({
      token,
      record: { ...step(record, { at: 0, state: "succeeded" }), endedAt: Date.now(), keepMs: -1, followUps },
      followUps,
      then: ack,
    })
    const goesOn = (next: JobPosting): Settlement => ({
      token,
      record: {
        ...step(record, { at: 0, state: "queued", run: next.run }),
        retries: next.retries,
        successor: `${next.id}/${next.run}/${next.retries}`,
        followUps: [next],
      },
      followUps: [next],
      then: ack,
    })
    if (isCallback(of.id)) return ends([])
    const dice = this.random()
    if (!healthy && dice < 0.25 && of.retries < 2) return goesOn(posting(of.run, of.retries + 1, 0, of.id))
    if (!healthy && dice < 0.35 && !early) {
      const back = { ...step(record, { at: 0, state: "queued" }), claims: Math.max(0, (record.claims ?? 1) - 1) }
      return { token, ...(fresh ? {} : { record: back }), then: { kind: "hand-back", delay: 0 } }
    }
    if (!healthy && dice < 0.45 && of.run < 3) return goesOn(posting(of.run + 1, 0, 0, of.id))
    return ends([posting(1, 0, 0, `C${of.run}`)])
  }

  #settle(actor: number, jobs: Jobs, settlement: Settlement): Promise<string> {
    return this.#insist(actor, async () => {
      const [answer] = await jobs.settle([settlement])
      return answer?.status === "failed" ? undefined : answer?.status
    })
  }

  async #insist<T>(actor: number, ask: () => Promise<T | undefined>): Promise<T> {
    for (let tried = 0; tried < 100; tried++) {
      const answer = await ask().catch(() => undefined)
      if (answer !== undefined) return answer
      await this.#gate(actor)
    }
    throw new Error("never settles")
  }

  /** Cancels, and runs again. */
  async #outside(actor: number, jobs: Jobs): Promise<void> {
    for (;;) {
      for (let pause = 0; pause < 12; pause++) await this.#gate(actor)
      const found = await jobs.find("J").catch(() => undefined)
      if (found === undefined) continue
      const { record, revision } = found
      if (!isTerminal(record.state)) {
        if (!this.chance(0.5)) continue
        const ended = { ...step(record, { at: 0, state: "cancelled" }), fence: "", endedAt: Date.now(), keepMs: -1 }
        await jobs.decide([{ id: "J", expect: revision, record: ended, withdraw: true }]).catch(() => undefined)
      } else if (record.run < 4) {
        const { endedAt: _ended, successor: _next, acked: _acked, claims: _claims, ...kept } = record
        const next = posting(record.run + 1, 0, 0, "J")
        const again = { ...step(kept, { at: 0, state: "queued", run: next.run }), fence: "", retries: 0 }
        const change = { id: "J", expect: revision, record: { ...again, message: next.message }, post: [next] }
        await jobs.decide([change]).catch(() => undefined)
      }
    }
  }

  async #maintain(actor: number, jobs: Jobs): Promise<void> {
    for (;;) {
      for (let pause = 0; pause < 25; pause++) await this.#gate(actor)
      await mend(jobs).catch(() => undefined)
    }
  }

  /** Jobs that were off their queue when their worker died: no lease brings them back. */
  async #endLost(jobs: Jobs): Promise<void> {
    for (const [id, fence] of this.#early) {
      const found = await jobs.find(id)
      if (found === undefined) continue
      const { record, revision } = found
      if (record.state === "started" && record.acked) {
        const { acked: _acked, ...kept } = record
        const ended = { ...step(kept, { at: 0, state: "failed" }), fence: "", endedAt: Date.now(), keepMs: -1 }
        await jobs.decide([{ id, expect: revision, record: ended }])
      } else if (record.fence === fence || record.fence === "") {
        for (const each of record.followUps ?? []) {
          if (each.id !== id) {
            if ((await jobs.find(each.id)) === undefined) await jobs.publish([each])
          } else if (!isTerminal(record.state) && record.message === undefined) {
            await jobs.decide([{ id, expect: revision, record, post: [each] }])
          }
        }
      }
    }
  }

  #faults(): ReadonlyArray<string> {
    const faults: Array<string> = []
    const left = [...this.board.tasks].map(({ posting: { key } }) => key)
    if (left.length > 0) faults.push(`tasks are left: ${left.join(", ")}`)
    const last = (id: string) => this.log.findLast((record) => record.id === id)
    if (!isTerminal(last("J")?.state ?? "queued")) faults.push(`J has not ended: ${last("J")?.state}`)
    const ends = new Map<string, Set<string>>()
    for (const record of this.log) {
      if (isTerminal(record.state)) {
        const run = `${record.id}/${record.run}`
        ends.set(run, (ends.get(run) ?? new Set()).add(`${record.state} by ${record.fence}`))
        if (
          record.id === "J" &&
          record.state === "succeeded" &&
          !isTerminal(last(`C${record.run}`)?.state ?? "queued")
        ) {
          faults.push(`the callback of run ${record.run} is lost`)
        }
      }
    }
    for (const [run, outcomes] of ends) {
      if (outcomes.size > 1) faults.push(`several outcomes of ${run}: ${[...outcomes].join(", ")}`)
    }
    for (const id of new Set(this.log.map((record) => record.id))) {
      let holder: JobRecord | undefined
      for (const record of this.log.filter((each) => each.id === id)) {
        const stolen = holder?.state === "started" && record.state !== "started" && record.fence !== ""
        if (stolen && record.fence !== holder?.fence) faults.push(`an overtaken delivery decided about ${id}`)
        holder = record
      }
    }
    return faults
  }
}

const postingIn = ({ headers }: JobPosting["message"]): JobPosting => {
  const own = headers["callboard"]
  const run = typeof own === "object" && own !== null && "run" in own ? Number(own.run) : 1
  return posting(run, Number(headers["retries"]), 0, String(headers["id"]))
}

/** Posts again what was lost between two steps. */
const mend = async (jobs: Jobs): Promise<void> => {
  for (const id of (await jobs.orphans?.(Date.now(), 100)) ?? []) {
    const found = await jobs.find(id)
    const { message, state } = found?.record ?? {}
    if (found === undefined || message === undefined || (state !== "queued" && state !== "scheduled")) continue
    const { record, revision } = found
    await jobs.decide([{ id, expect: revision, record, post: [postingIn(message)] }])
  }
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test.each([
  { atomic: true, dedupeWindow: 120_000 },
  { atomic: true, dedupeWindow: 0 },
  { atomic: false, dedupeWindow: 120_000 },
  { atomic: false, dedupeWindow: 0 },
])("nothing is lost and nothing is decided twice: %j", async (kind) => {
  const faults: Array<string> = []
  for (let seed = 1; seed <= WALKS; seed++) {
    for (const fault of await new Walk(seed, kind).run()) faults.push(`walk ${seed}: ${fault}`)
  }
  expect(faults).toEqual([])
})
