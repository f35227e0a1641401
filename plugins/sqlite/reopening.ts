/**
 * A driver that survives the loss of its file. A session is a driver over one open file; when that file was removed or
 * replaced, the session ends: its waiting calls fail, and nothing is carried over. Then a new session is opened on the
 * file that is under the path now (created if there is none), with the same subscriptions.
 */
import { setTimeout as sleep } from "node:timers/promises"
import type { Driver } from "../../runtime/transport/driver.ts"
import { TransportError } from "../../runtime/transport/mod.ts"
import { LOOK_MS } from "./database/database.ts"
import type { FileDriver } from "./driver.ts"

type StatusListener = Parameters<Driver["onStatus"]>[0]

interface Subscription {
  begin(session: FileDriver): Promise<void>
  /** Called when the subscription was begun again in a new session. */
  resumed(): void
}

/** Opens a session; `onGone` is called when the file under its path is another one, or missing. */
export type Open = (onGone: (error: TransportError) => void) => Promise<FileDriver>

/**
 * The shortest wait before the file is opened again. Other processes, and other threads of this one, notice the loss
 * and close the old file in that time: its write-ahead log, if it was left behind, must not be in use any more.
 */
const MIN_DELAY_MS = LOOK_MS + 300

/** The wait when the runtime passes no `reconnectDelay`. */
const DEFAULT_DELAY_MS = 1_000

/** Opens the first session. Fails with the error of `open`. */
export const openReopening = async (
  open: Open,
  delay: (tries: number) => number = () => DEFAULT_DELAY_MS,
): Promise<FileDriver> => {
  const closing = new AbortController()
  const statusListeners = new Set<StatusListener>()
  /** Subscriptions that a new session has to begin again. */
  const subscriptions = new Set<Subscription>()
  let current: FileDriver | undefined
  let why = new TransportError("unavailable", "the file is not open")
  let reopening = Promise.resolve()
  let closed: Promise<void> | undefined

  const tell: StatusListener = (status, reason) => {
    for (const listener of [...statusListeners]) listener(status, reason)
  }

  const enter = async (): Promise<FileDriver> => {
    const session = await open((error) => {
      // When the file is lost while the session is being set up, the calls that set it up fail by themselves.
      if (current === session) reopening = reopen(session, error)
    })
    try {
      for (const subscription of [...subscriptions]) {
        await subscription.begin(session)
        subscription.resumed()
      }
    } catch (error) {
      await session.close()
      throw error
    }
    session.onStatus(tell)
    current = session
    return session
  }

  /**
   * Ends the old session, and tries to open a new one until that succeeds or the transport is closed. Never rejects.
   */
  const reopen = async (old: FileDriver, lost: TransportError): Promise<void> => {
    current = undefined
    why = lost
    // The old file is closed before another is opened: when a process closes one file, it loses its locks of another
    // file of the same name.
    await old.close().catch(() => undefined)
    for (let tries = 1; !closing.signal.aborted; tries++) {
      const wait = Math.max(MIN_DELAY_MS, delay(tries))
      // The timer does not keep the process alive: a call that waits has a timer of its own for that.
      await sleep(wait, undefined, { ref: false, signal: closing.signal }).catch(() => undefined)
      if (closing.signal.aborted) return
      try {
        await enter()
        tell("connected")
        return
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error)
        why = new TransportError("unavailable", `${lost.message}; it cannot be opened again: ${reason}`)
      }
    }
  }

  const use = async <T>(run: (session: FileDriver) => Promise<T>): Promise<T> => {
    if (closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
    if (current === undefined) throw why
    try {
      return await run(current)
    } catch (error) {
      const endedWithSession = error instanceof TransportError && error.reason === "closed"
      throw endedWithSession && !closing.signal.aborted ? why : error
    }
  }

  const subscribe = async (
    signal: AbortSignal,
    begin: Subscription["begin"],
    resumed: Subscription["resumed"] = () => undefined,
  ): Promise<void> => {
    await use(begin)
    if (signal.aborted) return
    const subscription = { begin, resumed }
    subscriptions.add(subscription)
    signal.addEventListener("abort", () => subscriptions.delete(subscription), { once: true })
  }

  const close = async (): Promise<void> => {
    closing.abort()
    statusListeners.clear()
    subscriptions.clear()
    await reopening
    await current?.close()
  }

  const { name, capabilities } = await enter()
  return {
    name,
    capabilities,
    publish: (postings) => use((session) => session.publish(postings)),
    take: (request, signal) => use((session) => session.take(request, signal)),
    extend: (tokens) => use((session) => session.extend(tokens)),
    read: (ids, what) => use((session) => session.read(ids, what)),
    commit: (commits) => use((session) => session.commit(commits)),
    query: (query) => use((session) => session.query(query)),
    count: (state, queue, max) => use((session) => session.count(state, queue, max)),
    queues: () => use((session) => session.queues()),
    waiting: (what, max) => use((session) => session.waiting(what, max)),
    listen: (interest, listener, signal) =>
      subscribe(
        signal,
        (session) => session.listen(interest, listener, signal),
        () => listener({ kind: "missed" }),
      ),
    store: {
      get: (keys) => use(({ store }) => store.get(keys)),
      write: (operations) => use(({ store }) => store.write(operations)),
      list: (range) => use(({ store }) => store.list(range)),
      watch: (prefix, listener, signal) => subscribe(signal, ({ store }) => store.watch(prefix, listener, signal)),
      now: () => use(({ store }) => store.now()),
    },
    broadcast: {
      send: (topic, payload) => use(({ broadcast }) => broadcast.send(topic, payload)),
      listen: (topic, listener, signal) =>
        subscribe(signal, ({ broadcast }) => broadcast.listen(topic, listener, signal)),
    },
    onStatus: (listener) => {
      statusListeners.add(listener)
      return () => void statusListeners.delete(listener)
    },
    close: () => {
      closed ??= close()
      return closed
    },
  }
}
