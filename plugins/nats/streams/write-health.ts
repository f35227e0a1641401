/**
 * Whether the server stores what is published. One that has no room, or is silent, counts as out of reach, though it may
 * hand over tasks: they could not be settled. Whether it stores again is tried now and then.
 */
import type { Transport } from "../../../runtime/transport/lift/transport.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import type { Link } from "../connection/link.ts"

type StatusListener = Parameters<Transport["onStatus"]>[0]

/** How long after a refusal it is tried: at first, and at most. Each time twice as long. */
const PROBE_MS = 250
const MAX_PROBE_MS = 5_000

/** A server that refuses again within this time is tried as seldom as before: one that is nearly full takes something at times. */
const HEALTHY_MS = 30_000

export class WriteHealth {
  readonly #link: Link
  readonly #probe: () => Promise<unknown>
  readonly #listeners = new Set<StatusListener>()
  #fault: TransportError | undefined
  /** Whether it was silent, and did not refuse. */
  #silent = false
  #healthySince = Number.NEGATIVE_INFINITY
  #probeMs = PROBE_MS
  #timer: ReturnType<typeof setTimeout> | undefined
  #connected: boolean
  #checking = false

  /** `probe` has the server store something small. */
  constructor(link: Link, probe: () => Promise<unknown>) {
    this.#link = link
    this.#probe = probe
    this.#connected = link.connected
    link.onStatus((status) => {
      this.#notify()
      // It may be another server, or the same one started again.
      if (status === "connected" && this.#fault !== undefined) this.#probeAfter(PROBE_MS)
    })
    link.closing.addEventListener("abort", () => clearTimeout(this.#timer), { once: true })
  }

  /** Why nothing is stored now; `undefined` while it is. */
  get fault(): TransportError | undefined {
    return this.#fault
  }

  /** Of the connection and of what is stored over it, together. */
  onStatus(listener: StatusListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** The server had no room for something. */
  readonly refused = (error: TransportError): void => this.#markUnhealthy(error, false)

  /** The server did not answer, which may be chance: it is tried before anybody is told. */
  readonly unanswered = (error: TransportError): void => {
    if (this.#fault !== undefined || this.#checking || !this.#link.connected) return
    this.#checking = true
    this.#probe()
      .catch((cause: unknown) => {
        if (!(cause instanceof TransportError && cause.retryable) || !this.#link.connected) return
        const message = `the nats-server stores nothing now (${error.message}): there may be no leader. If it stays so, its log says why: after a write that failed, on a full disk for instance, it must be restarted`
        this.#markUnhealthy(new TransportError("unavailable", message), true)
      })
      .finally(() => {
        this.#checking = false
      })
  }

  /** The server has stored something, or said that it must not. One that was silent is back; one that is full may take little things. */
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
          // Whatever else is wrong does not become right by waiting for room.
          if (error instanceof TransportError && error.retryable) this.#probeLater()
          else this.#markHealthy()
        },
      )
    }, ms)
    // Whoever waits keeps the process alive by its own timer.
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
