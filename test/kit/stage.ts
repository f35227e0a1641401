/**
 * The environment of a case: its own namespace, names and connections, and deadlines whose errors name what was awaited.
 * Cases share nothing, so that they may run in any order and at the same time. All functions are bound, so that cases can
 * destructure them (`{ peer, fresh }`).
 */

import { randomUUID } from "node:crypto"
import process from "node:process"
import type { ConnectOptions } from "../../runtime/transport/mod.ts"
import { AskedTooLate, between, GaveUp, TooBusy } from "./check.ts"
import type { Ground } from "./harness.ts"

/** Chooses a size: the large one only with KIT=full. */
export const size = (quick: number, full: number): number => (process.env["KIT"] === "full" ? full : quick)

/** One connection of a case. */
export interface Connected<Connection> {
  use(connection: Connection): void
  close(): Promise<void>
}

export interface Bounds {
  /** Lease of the connections, in milliseconds. */
  readonly lease: number
  /** Longest that the case may take, in milliseconds. */
  readonly timeout: number
}

/** From when on a case begins no further repetition, in milliseconds: half of the time that it may take. */
const REPEATS_MS = 30_000

/** How often a case is begun whose checks come too late. */
const ROUNDS = 6

/** Longest that a harness may take to end its broker and start it again, in milliseconds. */
export const RESTART_MS = 150_000

/**
 * Runs a round of a case, and another one from the start if this process asked too late for a verdict, as it does on a
 * machine that is busy. All of them share the time that the case may take.
 */
export const rounds = async (timeout: number, round: (timeout: number) => Promise<void>): Promise<void> => {
  const start = performance.now()
  for (let count = 1; ; count++) {
    const begun = performance.now()
    try {
      return await round(start + timeout - begun)
    } catch (error) {
      if (!(error instanceof AskedTooLate)) throw error
      const now = performance.now()
      if (count < ROUNDS && now + (now - begun) < start + timeout) continue
      throw new TooBusy(
        `this machine was too busy: ${count} rounds of this case proved nothing, in the last: ${error.message}`,
      )
    }
  }
}

/** `Connection` is what a harness opens: a transport, or the driver of one. */
export abstract class Stage<Connection, Harness extends Ground<Connection>, Peer extends Connected<Connection>> {
  readonly harness: Harness
  readonly namespace = `kit-${randomUUID()}`
  /** Lease of all connections of this case, in milliseconds. */
  readonly lease: number
  /** The first connection. */
  readonly peer: Peer
  readonly #peers: Array<Peer> = []
  readonly #awaited = new Map<symbol, string>()
  readonly #heldUp = heldUp()
  #names = 0
  /** Milliseconds that restarts of the broker took. */
  #restarts = 0
  #restart: { readonly from: number; readonly done: Promise<unknown> } | undefined

  constructor(harness: Harness, lease: number) {
    this.harness = harness
    // A transport that looks in intervals needs leases that outlast a few of them, and so does a machine that is busy.
    const long = harness.slow === true || (harness.slack ?? 0) > 1_000
    this.lease = Math.max(long ? 2 * lease : lease, 1_000, harness.capabilities.leaseResolution)
    this.peer = this.make()
  }

  /** A peer that has no connection yet. Called before fields of a subclass are set. */
  protected abstract make(): Peer

  /** Connects, runs and cleans up; fails when that takes longer than `timeout`. */
  async perform(timeout: number, run: () => Promise<void>): Promise<void> {
    try {
      await this.#bounded(timeout, async () => {
        await this.#open(this.peer, this.harness.connect)
        await run()
      })
    } finally {
      this.#heldUp.stop()
      // The next case needs the broker.
      await this.#restart?.done
      await Promise.allSettled(this.#peers.map((peer) => peer.close()))
      await this.harness.clean?.(this.namespace)
    }
  }

  /** What the transport may be late by on a busy machine, beyond what it declares. */
  get slack(): number {
    return this.harness.slack ?? (this.harness.slow ? 2_500 : 1_000)
  }

  /** Largest difference between the two clocks. */
  get tolerance(): number {
    return this.harness.clockTolerance ?? 20
  }

  /** How long to wait before concluding that nothing comes. */
  get quiet(): number {
    return this.harness.slow ? 1_200 : 250
  }

  /** How long to wait for what should come soon, in milliseconds. */
  get #patience(): number {
    return 8_000 + 2 * (this.harness.slack ?? 0)
  }

  /** A text that is unique to this case. */
  readonly fresh = (label: string): string => `${label}-${++this.#names}-${randomUUID().slice(0, 8)}`

  /** One more connection to the same board, or to the one of another namespace. */
  readonly another = (namespace?: string): Promise<Peer> => this.#open(this.make(), this.harness.connect, namespace)

  /** One more connection, from as far away as the transport reaches. */
  readonly elsewhere = (): Promise<Peer> => this.#open(this.make(), this.harness.second ?? this.harness.connect)

  readonly options = (): ConnectOptions => ({
    namespace: this.namespace,
    lease: this.lease,
    name: "callboard-kit",
    timeout: 5_000,
  })

  /** The outcome of a promise, or a failure that names what was awaited. */
  readonly within = async <T>(what: string, promise: Promise<T>, ms = this.#patience): Promise<T> => {
    const key = Symbol(what)
    this.#awaited.set(key, what)
    try {
      return await this.#before(ms, promise, () => new GaveUp(`gave up after ${ms} ms, awaiting ${what}`))
    } finally {
      this.#awaited.delete(key)
    }
  }

  /**
   * Lets the harness end its broker and start it again. No deadline of the case counts that time: how long a server takes to
   * start says nothing about the transport.
   */
  readonly restarted = async (what: string, restart: () => Promise<void>): Promise<void> => {
    const key = Symbol(what)
    this.#awaited.set(key, what)
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new GaveUp(`gave up after ${RESTART_MS} ms, awaiting ${what}`)), RESTART_MS)
    })
    const done = Promise.race([restart(), late])
    const from = performance.now()
    this.#restart = { from, done: done.catch(() => undefined) }
    try {
      await done
    } finally {
      clearTimeout(timer)
      this.#restarts += performance.now() - from
      this.#restart = undefined
      this.#awaited.delete(key)
    }
  }

  /**
   * Numbers from 0, for a case that repeats a step `count` times: fewer on a machine so busy that the case would run out of
   * time, since each repetition is a test of its own.
   */
  readonly repeats = function* (count: number): Generator<number> {
    const end = performance.now() + REPEATS_MS
    for (let round = 0; round < count && (round === 0 || performance.now() < end); round++) yield round
  }

  /** Milliseconds by the clock of deadlines, which stands still while the broker is restarted or this process held up. */
  #now(): number {
    return (this.#restart?.from ?? performance.now()) - this.#restarts - this.#heldUp.total()
  }

  /** The outcome of a promise, unless it takes longer. */
  async #before<T>(ms: number, promise: Promise<T>, late: () => Error): Promise<T> {
    const end = this.#now() + ms
    let timer: ReturnType<typeof setTimeout> | undefined
    const over = new Promise<never>((_, reject) => {
      const look = (): void => {
        const left = end - this.#now()
        if (left <= 0) reject(late())
        else timer = setTimeout(look, Math.max(left, 100))
      }
      timer = setTimeout(look, ms)
    })
    try {
      return await Promise.race([promise, over])
    } finally {
      clearTimeout(timer)
    }
  }

  /** Repeats a question until it is answered. */
  readonly until = async <T>(
    what: string,
    ask: () => Promise<T | undefined | false>,
    ms = this.#patience,
  ): Promise<T> => {
    const end = this.#now() + ms
    for (let pause = 5; ; pause = Math.min(pause * 2, 100)) {
      const answer = await this.within(what, ask(), ms)
      if (answer !== undefined && answer !== false) return answer
      if (this.#now() > end) throw new GaveUp(`gave up after ${ms} ms, awaiting ${what}`)
      await sleep(pause)
    }
  }

  /**
   * Measures from now on, or from another time. The function that it returns checks how many milliseconds it was; if that
   * is too long only by what this process was held up meanwhile, the case begins again.
   */
  readonly timed = (from = Date.now()): ((low: number, high: number, what: string) => void) => {
    const before = this.#heldUp.total()
    return (low, high, what) => {
      const took = Date.now() - from
      const held = Math.round(this.#heldUp.total() - before)
      if (took > high && took - held <= high) {
        throw new AskedTooLate(`${what}: ${took}, but this process was held up for ${held} of them`)
      }
      between(took, low, high, what)
    }
  }

  /**
   * Checks what holds until a time only, such as the end of a lease. If that fails and the time is over meanwhile, it was
   * this process that was late and not the transport, and the case begins again.
   */
  readonly inTime = async <T>(end: number | (() => number), ask: () => Promise<T>): Promise<T> => {
    try {
      return await ask()
    } catch (error) {
      const late = Date.now() - (typeof end === "number" ? end : end())
      if (late < 0 || error instanceof GaveUp) throw error
      throw new AskedTooLate(`${late} ms too late, ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      })
    }
  }

  async #open(
    peer: Peer,
    connect: (options: ConnectOptions) => Promise<Connection>,
    namespace?: string,
  ): Promise<Peer> {
    this.#peers.push(peer)
    const options = { ...this.options(), ...(namespace === undefined ? {} : { namespace }) }
    peer.use(await this.within("a connection", connect.call(this.harness, options)))
    return peer
  }

  #bounded(ms: number, run: () => Promise<void>): Promise<void> {
    return this.#before(ms, run(), () => {
      const awaited = [...this.#awaited.values()].join(", ") || "its end"
      return new GaveUp(`the case gave up after ${ms} ms, awaiting ${awaited}`)
    })
  }
}

const BEAT = 25

/** How long this process was held up, by a machine that is busy or by its own work: timers ran so much later. */
const heldUp = () => {
  let held = 0
  let last = performance.now()
  const late = (): number => {
    const ms = performance.now() - last - BEAT
    // Less is what timers are always late by.
    return ms > BEAT ? ms : 0
  }
  const timer = setInterval(() => {
    held += late()
    last = performance.now()
  }, BEAT)
  return { total: () => held + late(), stop: () => clearInterval(timer) }
}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** Publishes a task and takes it: most cases begin with one in hand. */
export const taken = async <Posting extends { readonly queue: string }, Delivery>(
  peer: { publish(posting: Posting): Promise<unknown>; one(queue: string): Promise<Delivery> },
  posting: Posting,
): Promise<{ readonly queue: string; readonly posting: Posting; readonly delivery: Delivery }> => {
  await peer.publish(posting)
  return { queue: posting.queue, posting, delivery: await peer.one(posting.queue) }
}

/** Aborts a take while each task arrives; returns the deliveries that they brought in spite of that. */
export const abortedTakes = async <Posting, Delivery>(
  postings: ReadonlyArray<Posting>,
  publish: (posting: Posting) => Promise<unknown>,
  take: (signal: AbortSignal) => Promise<ReadonlyArray<Delivery>>,
): Promise<ReadonlyArray<Delivery>> => {
  const found: Array<Delivery> = []
  for (const [at, posting] of postings.entries()) {
    const stop = new AbortController()
    const waiting = take(stop.signal)
    const publishing = publish(posting)
    // The case fails by the first of them that fails; the other one must not fail outside of it.
    for (const each of [waiting, publishing]) each.catch(() => undefined)
    if (at % 3 > 0) await sleep(at % 3)
    stop.abort()
    found.push(...(await waiting))
    await publishing
  }
  return found
}
