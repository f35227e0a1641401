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
const PROBE_AT_MOST_MS = 5_000

/** A server that refuses again within this time is tried as seldom as before: one that is nearly full takes something at times. */
const WELL_MS = 30_000

export class Acceptance {
  readonly #link: Link
  readonly #probe: () => Promise<unknown>
  readonly #listeners = new Set<StatusListener>()
  #why: TransportError | undefined
  /** Whether it was silent, and did not refuse. */
  #silent = false
  #wellSince = Number.NEGATIVE_INFINITY
  #wait = PROBE_MS
  #timer: ReturnType<typeof setTimeout> | undefined
  #connected: boolean
  #suspected = false

  /** `probe` has the server store something small. */
  constructor(link: Link, probe: () => Promise<unknown>) {
    this.#link = link
    this.#probe = probe
    this.#connected = link.connected
    link.onStatus((status) => {
      this.#tell()
      // It may be another server, or the same one started again.
      if (status === "connected" && this.#why !== undefined) this.#tryAfter(PROBE_MS)
    })
    link.closing.addEventListener("abort", () => clearTimeout(this.#timer), { once: true })
  }

  /** Why nothing is stored now; `undefined` while it is. */
  get refusal(): TransportError | undefined {
    return this.#why
  }

  /** Of the connection and of what is stored over it, together. */
  onStatus(listener: StatusListener): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** The server had no room for something. */
  readonly refused = (error: TransportError): void => this.#lost(error, false)

  /** The server did not answer, which may be chance: it is tried before anybody is told. */
  readonly unanswered = (error: TransportError): void => {
    if (this.#why !== undefined || this.#suspected || !this.#link.connected) return
    this.#suspected = true
    this.#probe()
      .catch((cause: unknown) => {
        if (!(cause instanceof TransportError && cause.retryable) || !this.#link.connected) return
        const message = `the nats-server stores nothing now (${error.message}): there may be no leader. If it stays so, its log says why: after a write that failed, on a full disk for instance, it must be restarted`
        this.#lost(new TransportError("unavailable", message), true)
      })
      .finally(() => {
        this.#suspected = false
      })
  }

  /** The server has stored something, or said that it must not. One that was silent is back; one that is full may take little things. */
  readonly answered = (): void => {
    if (this.#silent) this.#stores()
  }

  #lost(error: TransportError, silent: boolean): void {
    const first = this.#why === undefined
    this.#why = error
    this.#silent = silent
    if (!first) return
    if (performance.now() - this.#wellSince > WELL_MS) this.#wait = PROBE_MS
    this.#tell()
    this.#tryLater()
  }

  #tryLater(): void {
    this.#tryAfter(this.#wait)
    this.#wait = Math.min(this.#wait * 2, PROBE_AT_MOST_MS)
  }

  #tryAfter(ms: number): void {
    clearTimeout(this.#timer)
    if (this.#link.closing.aborted) return
    this.#timer = setTimeout(() => {
      this.#probe().then(
        () => this.#stores(),
        (error: unknown) => {
          if (this.#why === undefined) return
          // Whatever else is wrong does not become right by waiting for room.
          if (error instanceof TransportError && error.retryable) this.#tryLater()
          else this.#stores()
        },
      )
    }, ms)
    // Whoever waits keeps the process alive by its own timer.
    this.#timer.unref()
  }

  #stores(): void {
    clearTimeout(this.#timer)
    this.#why = undefined
    this.#silent = false
    this.#wellSince = performance.now()
    this.#tell()
  }

  #tell(): void {
    const connected = this.#link.connected && this.#why === undefined
    if (connected === this.#connected) return
    this.#connected = connected
    for (const listener of [...this.#listeners]) {
      if (connected) listener("connected")
      else listener("disconnected", this.#link.connected ? this.#why : undefined)
    }
  }
}
