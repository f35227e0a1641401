/**
 * The wire between a process and its board: every call of the driver takes a request and an answer, each of which may be
 * slow or lost, and after each of them the process may be frozen or killed. So may it be between two steps of a commit.
 */
import type { Commit, Committed, Driver, News, Receipt } from "../../runtime/transport/driver.ts"
import { decodeStored } from "../../runtime/transport/job-store/codec.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import type { Process, World } from "./world.ts"

/** How likely a fault is at each passage over the wire, and how many there are at most. */
export interface Faults {
  readonly lostRequest: number
  readonly lostAnswer: number
  readonly slow: number
  readonly freeze: number
  readonly kill: number
  readonly cut: number
  readonly lostNews: number
}

/** A call of the driver, as the trace names it. */
export type Call = "commits" | "takes" | "writes" | "extends" | "reads" | "posts"

export interface WireOptions {
  readonly world: World
  readonly process: Process
  readonly faults: Faults
  /** The only call that faults strike; absent: all. */
  readonly focus?: Call | undefined
  /** Length of a lease, in milliseconds. */
  readonly leaseMs: number
  /** Faults that are left, and how many of those that struck may make a job run again, over all wires. */
  readonly budget: { left: number; struck: number }
  /** Called when a fault has killed the process. */
  readonly onKilled: (process: Process) => void
}

type Status = Parameters<Driver["onStatus"]>[0]

export class Wire {
  readonly #options: WireOptions
  readonly #listeners = new Set<Status>()
  /** Until then the wire is cut. */
  #cutUntil = 0

  constructor(options: WireOptions) {
    this.#options = options
  }

  /** Whether a fault of this kind strikes this call now. */
  #strikes(kind: keyof Faults, call: string): boolean {
    const { world, faults, focus, budget } = this.#options
    if (
      budget.left <= 0 ||
      (focus !== undefined && focus !== call) ||
      faults[kind] === 0 ||
      !world.random.chance(faults[kind])
    )
      return false
    budget.left--
    if (kind !== "lostNews") budget.struck++
    return true
  }

  #latency(call: string): number {
    const { world, leaseMs } = this.#options
    const usual = 0.2 + world.random.next() * 3
    return this.#strikes("slow", call) ? world.random.next() * leaseMs * 1.5 : usual
  }

  /** A moment after which the process may be frozen or killed, or its wire cut: once what runs now has come to its end. */
  #moment(call: string): void {
    const { world, process, leaseMs, onKilled } = this.#options
    if (process.isDead) return
    const part = world.random.next()
    if (this.#strikes("freeze", call)) world.after(0, () => world.freeze(process, leaseMs * (0.2 + part * 2)), null)
    else if (this.#strikes("kill", call)) {
      world.after(
        0,
        () => {
          if (process.isDead) return
          world.kill(process)
          onKilled(process)
        },
        null,
      )
    } else if (this.#strikes("cut", call)) this.#cut(leaseMs * (0.1 + part * 1.6))
  }

  get #isCut(): boolean {
    return this.#cutUntil > this.#options.world.elapsed
  }

  #cut(ms: number): void {
    const { world, process } = this.#options
    if (this.#isCut) return
    this.#cutUntil = world.elapsed + ms
    world.note(`${process.name} is cut off for ${Math.round(ms)} ms`)
    const tell = (status: "connected" | "disconnected") => {
      for (const listener of [...this.#listeners]) listener(status)
    }
    world.after(1, () => tell("disconnected"), process)
    world.after(ms + 1, () => tell("connected"), process)
  }

  readonly onStatus = (listener: Status): (() => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** From the process to the board: false where the request is lost. */
  #request(call: string, run: (arrived: boolean) => void): void {
    const { world } = this.#options
    const lost = this.#isCut || this.#strikes("lostRequest", call)
    // The board runs it, also if the process dies or stands still meanwhile.
    world.after(this.#latency(call), () => run(!lost && !this.#isCut), null)
    this.#moment(call)
  }

  /** From the board to the process. */
  #answer(call: string, run: (arrived: boolean) => void): void {
    const { world, process } = this.#options
    const lost = this.#isCut || this.#strikes("lostAnswer", call)
    world.after(
      this.#latency(call),
      () => {
        run(!lost && !this.#isCut)
        this.#moment(call)
      },
      process,
    )
  }

  /** Tells the process after a while that a call has failed: nothing says that a message is lost. */
  #lose(name: string, what: string, give: (error: TransportError) => void): void {
    const { world, process } = this.#options
    world.note(`${process.name} ${name}: ${what}`)
    const error = new TransportError("unavailable", what, { outcome: "unknown" })
    world.after(20 + world.random.next() * 200, () => give(error), process)
  }

  /**
   * Asks the board. `failed` makes an answer of a lost request or answer; where it is absent, the call rejects. `show` names
   * the call in the trace.
   */
  ask<T>(
    name: string,
    perform: () => Promise<T>,
    { failed, show }: { readonly failed?: (error: TransportError) => T; readonly show?: (answer: T) => string } = {},
  ): Promise<T> {
    const { world, process } = this.#options
    return new Promise((resolve, reject) => {
      const give = (error: TransportError) => (failed === undefined ? reject(error) : resolve(failed(error)))
      this.#request(name, (arrived) => {
        if (!arrived) return this.#lose(name, "the request is lost", give)
        perform().then(
          (answer) => {
            if (show !== undefined) world.note(`${process.name} ${name}${show(answer)}`)
            this.#answer(name, (came) => (came ? resolve(answer) : this.#lose(name, "the answer is lost", give)))
          },
          (thrown: unknown) => this.#answer(name, () => reject(thrown)),
        )
      })
    })
  }

  /** Asks for what decides nothing: the board answers in the moment in which the answer comes, which costs half as much. */
  look<T>(name: string, perform: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#answer(name, (came) => {
        if (came) perform().then(resolve, reject)
        else this.#lose(name, "the answer is lost", reject)
      })
    })
  }

  /** A pause between two steps of a commit, in which the process may die, and in which a request may be lost. */
  step(what: string): Promise<void> {
    const { world, process } = this.#options
    const call = "commits"
    return new Promise((resolve, reject) => {
      const lost = this.#isCut || this.#strikes("lostRequest", call)
      world.after(
        this.#latency(call),
        () => {
          if (!lost) return resolve()
          world.note(`${process.name} ${what}: the rest of the commit is lost`)
          reject(new TransportError("unavailable", "the rest of the commit is lost", { outcome: "unknown" }))
        },
        process,
      )
      this.#moment(call)
    })
  }

  /** Something that the board tells by itself: late, or not at all. */
  tell(run: () => void): void {
    const { world, process } = this.#options
    const call = "news"
    if (process.isDead || this.#isCut || this.#strikes("lostNews", call)) return
    world.after(this.#latency(call), run, process)
  }
}

/** The driver as a process sees it: over its wire. */
export const overWire = (driver: Driver, wire: Wire, world: World): Driver => {
  const { store, broadcast, query, queues, waiting, orphans } = driver
  const { watch } = store
  const failedEach =
    <T>(items: ReadonlyArray<unknown>, failed: (error: TransportError) => T) =>
    (error: TransportError): ReadonlyArray<T> =>
      items.map(() => failed(error))
  return {
    name: driver.name,
    capabilities: driver.capabilities,
    publish: (postings) =>
      wire.ask("posts", () => driver.publish(postings), {
        failed: failedEach(postings, (error): Receipt => ({ status: "failed", error })),
        show: (answers) =>
          postings
            .map(({ key, id }, at) => ` ${world.nameOf(id)}${key.slice(id.length)}: ${answers[at]?.status}`)
            .join(","),
      }),
    take: (request, signal) =>
      wire
        .ask("takes", () => driver.take(request, signal), {
          show: ({ deliveries }) => ` ${deliveries.length} of ${request.max}`,
        })
        .then(async (taken) => {
          if (!signal.aborted || taken.deliveries.length === 0) return taken
          // Deliveries that come too late are given back, as the contract says.
          const ends = taken.deliveries.map(
            ({ token }): Commit => ({ id: token, task: { kind: "hand-back", token, delay: 0 } }),
          )
          void wire.ask("gives back", () => driver.commit(ends)).catch(() => undefined)
          return { deliveries: [] }
        }),
    extend: (tokens) =>
      wire.ask("extends", () => driver.extend(tokens), { show: (kept) => ` ${kept.map(String).join(" ")}` }),
    read: (ids, what) => wire.ask("reads", () => driver.read(ids, what)),
    commit: (commits) =>
      wire.ask("commits", () => driver.commit(commits), {
        failed: failedEach(commits, (error): Committed => ({ status: "failed", error })),
        show: (answers) => commits.map((commit, at) => ` ${describe(commit, world)}: ${answers[at]?.status}`).join(","),
      }),
    listen: (interest, listener, signal) =>
      wire.look("listens", () =>
        driver.listen(interest, (news: News) => wire.tell(() => signal.aborted || listener(news)), signal),
      ),
    onStatus: wire.onStatus,
    close: () => driver.close(),
    store: {
      get: (keys) => wire.ask("gets", () => store.get(keys)),
      write: (operations) => wire.ask("writes", () => store.write(operations)),
      list: (range) => wire.look("lists", () => store.list(range)),
      now: () => wire.ask("asks for the time", () => store.now()),
      ...(watch === undefined
        ? {}
        : {
            watch: (prefix, listener, signal) =>
              wire.look("watches", () =>
                watch(prefix, (change) => wire.tell(() => signal.aborted || listener(change)), signal),
              ),
          }),
    },
    ...(broadcast === undefined
      ? {}
      : {
          broadcast: {
            send: (topic, payload) => wire.ask("announces", () => broadcast.send(topic, payload)),
            listen: (topic, listener, signal) =>
              wire.look("hears", () =>
                broadcast.listen(topic, (payload) => wire.tell(() => signal.aborted || listener(payload)), signal),
              ),
          },
        }),
    ...(query === undefined ? {} : { query: (asked) => wire.look("queries", () => query.call(driver, asked)) }),
    ...(queues === undefined ? {} : { queues: () => wire.look("counts", () => queues.call(driver)) }),
    ...(waiting === undefined
      ? {}
      : { waiting: (what, max) => wire.ask("looks for waiting jobs", () => waiting.call(driver, what, max)) }),
    ...(orphans === undefined
      ? {}
      : { orphans: (before, max) => wire.ask("looks for orphans", () => orphans.call(driver, before, max)) }),
  }
}

/** A commit for the trace. */
export const describe = ({ id, record, post = [], task }: Commit, world: World): string => {
  const parts: Array<string> = []
  if (record !== undefined) {
    const { id: job, run, state, retries } = decodeStored(record.bytes)
    parts.push(`${world.nameOf(job)} ${state} (run ${run}, retry ${retries})`)
  }
  for (const posting of post) parts.push(`+${world.nameOf(posting.id)}${posting.key.slice(posting.id.length)}`)
  if (task !== undefined)
    parts.push(record === undefined && post.length === 0 ? `${task.kind} ${world.nameOf(id)}` : task.kind)
  return parts.join(" ")
}
