/** The world of one seed: virtual time, randomness, processes that can be frozen and killed, and the trace of what happens. */
import { EventLoop } from "../../runtime/testing/event-loop.ts"
import { Random, replaceRandomness } from "../../runtime/testing/random.ts"

/** A process of the simulation: a worker with its connection, or a client. The board outlives all of them. */
export class Process {
  readonly name: string
  /** Until then nothing of the process runs; `Infinity`: it was killed. */
  heldUntil = 0
  /** Called when the process is killed: the broker notices that its connection is gone. */
  onKill: () => void = () => undefined

  constructor(name: string) {
    this.name = name
  }

  get isDead(): boolean {
    return this.heldUntil === Number.POSITIVE_INFINITY
  }
}

/** Where virtual time begins, in milliseconds since the epoch. */
const BEGINNING = Date.UTC(2030, 0, 1)

export class World extends EventLoop {
  readonly random: Random
  readonly trace: Array<string> = []
  /** Short names of jobs, in the order in which the trace meets them. */
  readonly #names = new Map<string, string>()

  constructor(seed: number) {
    super(BEGINNING)
    this.random = new Random(seed)
  }

  protected override heldUntil(owner: unknown): number {
    return owner instanceof Process ? owner.heldUntil : 0
  }

  note(what: string): void {
    this.trace.push(`${this.elapsed.toFixed(3).padStart(10)} ${what}`)
  }

  nameJob(id: string, name: string): void {
    this.#names.set(id, name)
  }

  nameOf(id: string): string {
    let name = this.#names.get(id)
    if (name === undefined) {
      name = `f${this.#names.size}`
      this.#names.set(id, name)
    }
    return name
  }

  /** A text with the names of jobs in it. */
  named(text: string): string {
    return text.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, (id) => this.#names.get(id) ?? id)
  }

  freeze(process: Process, ms: number): void {
    if (process.isDead) return
    process.heldUntil = Math.max(process.heldUntil, this.elapsed + ms)
    this.note(`${process.name} is frozen for ${Math.round(ms)} ms`)
  }

  kill(process: Process): void {
    if (process.isDead) return
    process.heldUntil = Number.POSITIVE_INFINITY
    this.note(`${process.name} is killed`)
    process.onKill()
  }

  /** Runs `run` as a part of a process: what it sets off belongs to that process. */
  in<T>(process: Process, run: () => T): T {
    const { owner } = this
    this.owner = process
    try {
      return run()
    } finally {
      this.owner = owner
    }
  }

  /** Replaces clocks, timers and randomness of this whole process. Returns a function that puts the real ones back. */
  override install(): () => void {
    const restore = super.install()
    const restoreRandomness = replaceRandomness(this.random)
    return () => {
      restore()
      restoreRandomness()
    }
  }
}
