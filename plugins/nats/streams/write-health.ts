/**
 * Tracks whether the server stores what is published. A server that has no room, or does not answer, counts as
 * unavailable even if it can deliver tasks, because their outcomes could not be stored. A small write is tried now and
 * then, and ends that state.
 */
import type { Transport } from "../../../runtime/transport/job-store/transport.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import type { NatsLink } from "../connection/link.ts"

type StatusListener = Parameters<Transport["onStatus"]>[0]

/** How long after a refused write a small one is tried: at first, and at most. The delay doubles each time. */
const PROBE_MS = 250
const MAX_PROBE_MS = 5_000

/**
 * When the server refuses again within this time, the delay is not reset: a server that is nearly full accepts some
 * writes.
 */
const HEALTHY_MS = 30_000

export class WriteHealth {
  readonly #link: NatsLink
  readonly #probe: () => Promise<unknown>
  readonly #listeners = new Set<StatusListener>()
  #fault: TransportError | undefined
  /** Whether the server did not answer, instead of refusing. */
  #silent = false
  #healthySince = Number.NEGATIVE_INFINITY
  #probeMs = PROBE_MS
  #timer: ReturnType<typeof setTimeout> | undefined
  #connected: boolean
  #checking = false

  /** `probe` has the server store a small write. */
  constructor(link: NatsLink, probe: () => Promise<unknown>) {
    this.#link = link
    this.#probe = probe
    this.#connected = link.connected
    link.onStatus((status) => {
      this.#notify()
      // It may be another server now, or the same one restarted.
      if (status === "connected" && this.#fault !== undefined) this.#probeAfter(PROBE_MS)
    })
    link.closing.addEventListener("abort", () => clearTimeout(this.#timer), { once: true })
  }

  /** Why writes are refused now; `undefined` while they are stored. */
  get fault(): TransportError | undefined {
    return this.#fault
  }

  /** Reports the state of the connection and of writes as one status. */
  onStatus(listener: StatusListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** To be called when the server had no room for a message. */
  readonly refused = (error: TransportError): void => this.#markUnhealthy(error, false)

  /**
   * To be called when the server did not answer a write. That may be chance, so that a small write is tried before the
   * status changes.
   */
  readonly unanswered = (error: TransportError): void => {
    if (this.#fault !== undefined || this.#checking || !this.#link.connected) return
    this.#checking = true
    this.#probe()
      .catch((cause: unknown) => {
        if (!(cause instanceof TransportError && cause.retryable) || !this.#link.connected) return
        const message = `the nats-server stores nothing now (${error.message}): there may be no leader. If this lasts, see its log: after a failed write, for example on a full disk, it must be restarted`
        this.#markUnhealthy(new TransportError("unavailable", message), true)
      })
      .finally(() => {
        this.#checking = false
      })
  }

  /**
   * To be called when the server stored a write, or decided against it for another reason. A server that did not answer
   * is healthy again by that; one that is full may still accept small writes, so that only the probe ends that state.
   */
  readonly answered = (): void => {
    if (this.#silent) this.#markHealthy()
  }

  #markUnhealthy(error: TransportError, silent: boolean): void {
    const first = this.#fault === undefined
    this.#fault = error
    this.#silent = silent
    if (!first) return
    if (performance.now() - this.#healthySince > HEALTHY_MS) this.#probeMs = PROBE_MS
    this.#notify()
    this.#probeLater()
  }

  #probeLater(): void {
    this.#probeAfter(this.#probeMs)
    this.#probeMs = Math.min(this.#probeMs * 2, MAX_PROBE_MS)
  }

  #probeAfter(ms: number): void {
    clearTimeout(this.#timer)
    if (this.#link.closing.aborted) return
    this.#timer = setTimeout(() => {
      this.#probe().then(
        () => this.#markHealthy(),
        (error: unknown) => {
          if (this.#fault === undefined) return
          // Any other error would not go away by waiting for room.
          if (error instanceof TransportError && error.retryable) this.#probeLater()
          else this.#markHealthy()
        },
      )
    }, ms)
    // The timer does not keep the process alive: a call that waits has a timer of its own for that.
    this.#timer.unref()
  }

  #markHealthy(): void {
    clearTimeout(this.#timer)
    this.#fault = undefined
    this.#silent = false
    this.#healthySince = performance.now()
    this.#notify()
  }

  #notify(): void {
    const connected = this.#link.connected && this.#fault === undefined
    if (connected === this.#connected) return
    this.#connected = connected
    for (const listener of [...this.#listeners]) {
      if (connected) listener("connected")
      else listener("disconnected", this.#link.connected ? this.#fault : undefined)
    }
  }
}
