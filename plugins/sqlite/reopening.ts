/**
 * A transport over whichever file lies under its path now. When the one that is open was removed or replaced, it counts
 * as lost: it is closed, the file that is there then is opened (made, when there is none), and whoever listens goes on
 * listening there.
 */
import { type Transport, TransportError } from "../../runtime/transport.ts"
import type { FileTransport } from "./transport.ts"

type StatusListener = Parameters<Transport["onStatus"]>[0]

/** Opens the file; `onGone` is called when it is not the one under its path any more. */
export type Open = (onGone: (error: TransportError) => void) => Promise<FileTransport>

/**
 * The shortest wait before a file is opened again: other processes, and threads of this one, must have let go of the old
 * one's write-ahead log by then, in case it was left behind.
 */
const LEAST_MS = 500

/** Without a word from the runtime. */
const STEADY_MS = 1_000

/** Fails as opening does. */
export const openReopening = async (
  open: Open,
  delay: (tries: number) => number = () => STEADY_MS,
): Promise<Transport> => {
  const reopening = new Reopening(open, delay)
  return reopening.begin()
}

class Reopening {
  readonly #open: Open
  readonly #delay: (tries: number) => number
  readonly #closing = new AbortController()
  readonly #listeners = new Set<StatusListener>()
  /** How to begin each subscription that lasts. */
  readonly #subscriptions = new Set<(file: FileTransport) => Promise<void>>()
  #file: FileTransport | undefined
  #why = new TransportError("unavailable", "the file is not open")
  #returning: Promise<void> = Promise.resolve()
  #closed: Promise<void> | undefined
  #connected = true

  constructor(open: Open, delay: (tries: number) => number) {
    this.#open = open
    this.#delay = delay
  }

  async begin(): Promise<Transport> {
    const { name, capabilities } = await this.#enter()
    const file = <T>(run: (file: FileTransport) => Promise<T>): Promise<T> => this.#use(run)
    return {
      name,
      capabilities,
      queue: {
        publish: (postings) => file(({ queue }) => queue.publish(postings)),
        pull: (request, signal) => file(({ queue }) => queue.pull(request, signal)),
        claim: (claims) => file(({ queue }) => queue.claim(claims)),
        report: (reports) => file(({ queue }) => queue.report(reports)),
        settle: (settlements) => file(({ queue }) => queue.settle(settlements)),
        extend: (tokens) => file(({ queue }) => queue.extend(tokens)),
        hasten: (tokens) => file(({ queue }) => queue.hasten(tokens)),
        stats: () => file(({ queue }) => queue.stats()),
        overdue: (now, max) => file(({ queue }) => queue.overdue(now, max)),
        waiting: (queueName, max) => file(({ queue }) => queue.waiting(queueName, max)),
      },
      records: {
        find: (id) => file(({ records }) => records.find(id)),
        change: (changes) => file(({ records }) => records.change(changes)),
        query: (query) => file(({ records }) => records.query(query)),
        watch: (filter, listener, signal) =>
          this.#subscribe(signal, ({ records }) => records.watch(filter, listener, signal)),
      },
      store: {
        get: (key) => file(({ store }) => store.get(key)),
        write: (operations) => file(({ store }) => store.write(operations)),
        list: (options) => file(({ store }) => store.list(options)),
        count: (prefix) => file(({ store }) => store.count(prefix)),
        watch: (prefix, listener, signal) =>
          this.#subscribe(signal, ({ store }) => store.watch(prefix, listener, signal)),
        now: () => file(({ store }) => store.now()),
      },
      broadcast: {
        send: (topic, payload) => file(({ broadcast }) => broadcast.send(topic, payload)),
        listen: (topic, listener, signal) =>
          this.#subscribe(signal, ({ broadcast }) => broadcast.listen(topic, listener, signal)),
      },
      onStatus: (listener) => {
        this.#listeners.add(listener)
        return () => void this.#listeners.delete(listener)
      },
      close: () => {
        this.#closed ??= this.#close()
        return this.#closed
      },
    }
  }

  async #use<T>(run: (file: FileTransport) => Promise<T>): Promise<T> {
    if (this.#closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
    if (this.#file === undefined) throw this.#why
    try {
      return await run(this.#file)
    } catch (error) {
      const closedUnderIt = error instanceof TransportError && error.reason === "closed"
      throw closedUnderIt && !this.#closing.signal.aborted ? this.#why : error
    }
  }

  async #subscribe(signal: AbortSignal, begin: (file: FileTransport) => Promise<void>): Promise<void> {
    await this.#use(begin)
    if (signal.aborted) return
    this.#subscriptions.add(begin)
    signal.addEventListener("abort", () => this.#subscriptions.delete(begin), { once: true })
  }

  /** Opens the file, and goes on there. */
  async #enter(): Promise<FileTransport> {
    const file = await this.#open((error) => this.#gone(file, error))
    try {
      for (const begin of [...this.#subscriptions]) await begin(file)
    } catch (error) {
      await file.close()
      throw error
    }
    this.#file = file
    file.onStatus((status, why) => {
      if (this.#file === file) this.#tell(status === "connected", why)
    })
    return file
  }

  #gone(file: FileTransport, error: TransportError): void {
    // One that is not in use yet fails whoever begins with it.
    if (this.#file !== file) return
    this.#file = undefined
    this.#why = error
    this.#tell(false, error)
    this.#returning = this.#return(file, error)
  }

  /** Never fails. */
  async #return(old: FileTransport, lost: TransportError): Promise<void> {
    // First: the locks of one file are lost when this process closes another one of that name.
    await old.close().catch(() => undefined)
    for (let tries = 1; !this.#closing.signal.aborted; tries++) {
      await this.#pause(Math.max(LEAST_MS, this.#delay(tries)))
      if (this.#closing.signal.aborted) return
      try {
        const file = await this.#enter()
        if (this.#closing.signal.aborted) await file.close()
        else this.#tell(true)
        return
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error)
        this.#why = new TransportError("unavailable", `${lost.message}; it cannot be opened again: ${reason}`)
      }
    }
  }

  #pause(ms: number): Promise<void> {
    const { signal } = this.#closing
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        signal.removeEventListener("abort", done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      // Whoever waits keeps the process alive by its own timer.
      timer.unref()
      signal.addEventListener("abort", done)
    })
  }

  #tell(connected: boolean, why?: TransportError): void {
    if (connected === this.#connected) return
    this.#connected = connected
    for (const listener of [...this.#listeners]) {
      queueMicrotask(() => (connected ? listener("connected") : listener("disconnected", why)))
    }
  }

  async #close(): Promise<void> {
    this.#closing.abort()
    this.#listeners.clear()
    this.#subscriptions.clear()
    await this.#returning
    await this.#file?.close()
  }
}
