/** Measures the load of this process: memory, processor time, and how late its event loop runs its timers. */

/** How often the lateness of a timer is measured, and how many measurements are reported together. */
const EVERY_MS = 1_000
const LOOKS = 10

export interface Load {
  /** Bytes of memory. */
  readonly rss: number
  /** Processor time as a part of the time that passed, 1 for one core, over the last ten seconds. */
  readonly cpu: number
  /** The latest that a timer came in the last ten seconds, in seconds. */
  readonly loopLag: number
}

interface Look {
  readonly at: number
  readonly lateMs: number
  /** Processor time until then, in milliseconds. */
  readonly cpuMs: number
}

const cpuMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}

/** Measures once a second, until it is stopped. */
export class LoadWatch {
  readonly #timer: ReturnType<typeof setInterval>
  #looks: ReadonlyArray<Look> = [{ at: performance.now(), lateMs: 0, cpuMs: cpuMs() }]

  constructor() {
    this.#timer = setInterval(() => this.#look(), EVERY_MS)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const at = performance.now()
    const before = this.#looks.at(-1)?.at ?? at
    const look = { at, lateMs: Math.max(0, at - before - EVERY_MS), cpuMs: cpuMs() }
    this.#looks = [...this.#looks, look].slice(-LOOKS)
  }

  get load(): Load {
    const [first] = this.#looks
    const passed = performance.now() - (first?.at ?? 0)
    const cpu = first === undefined || passed <= 0 ? 0 : (cpuMs() - first.cpuMs) / passed
    return {
      rss: process.memoryUsage().rss,
      cpu: Math.round(cpu * 1_000) / 1_000,
      loopLag: Math.round(Math.max(...this.#looks.map(({ lateMs }) => lateMs))) / 1_000,
    }
  }
}
