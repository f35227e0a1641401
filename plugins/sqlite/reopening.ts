/**
 * A transport over whichever file lies under its path now. When the file of a session was removed or replaced, the
 * session is over with everything in it: calls that wait fail, and nothing is carried over. A new session is opened on
 * the file that is there then (made, when there is none), and watches what was watched.
 */
import { setTimeout as sleep } from "node:timers/promises"
import { type Transport, TransportError } from "../../runtime/transport/mod.ts"
import type { FileTransport } from "./transport.ts"

type StatusListener = Parameters<Transport["onStatus"]>[0]

/** Opens a session; `onGone` is called when its file is not the one under its path any more. */
export type Open = (onGone: (error: TransportError) => void) => Promise<FileTransport>

/**
 * The shortest wait before a file is opened again: other processes, and threads of this one, must have let go of the old
 * one's write-ahead log by then, in case it was left behind.
 */
const LEAST_MS = 500

/** The wait when the runtime names none. */
const STEADY_MS = 1_000

/** Fails as opening does. */
export const openReopening = async (
  open: Open,
  delay: (tries: number) => number = () => STEADY_MS,
): Promise<Transport> => {
  const closing = new AbortController()
  const statusListeners = new Set<StatusListener>()
  /** How each subscription that lasts begins in a session. */
  const subscriptions = new Set<(session: FileTransport) => Promise<void>>()
  let current: FileTransport | undefined
  let why = new TransportError("unavailable", "the file is not open")
  let reopening = Promise.resolve()
  let closed: Promise<void> | undefined

  const tell: StatusListener = (status, reason) => {
    for (const listener of [...statusListeners]) listener(status, reason)
  }

  const enter = async (): Promise<FileTransport> => {
    const session = await open((error) => {
      // The calls that begin a session fail by themselves when its file goes meanwhile.
      if (current === session) reopening = reopen(session, error)
    })
    try {
      for (const begin of [...subscriptions]) await begin(session)
    } catch (error) {
      await session.close()
      throw error
    }
    session.onStatus(tell)
    current = session
    return session
  }

  /** Never fails. */
  const reopen = async (old: FileTransport, lost: TransportError): Promise<void> => {
    current = undefined
    why = lost
    // First: the locks of one file are lost when this process closes another one of that name.
    await old.close().catch(() => undefined)
    for (let tries = 1; !closing.signal.aborted; tries++) {
      const wait = Math.max(LEAST_MS, delay(tries))
      // A call that waits keeps the process alive by its own timer.
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

  const use = async <T>(run: (session: FileTransport) => Promise<T>): Promise<T> => {
    if (closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
    if (current === undefined) throw why
    try {
      return await run(current)
    } catch (error) {
      const endedWithSession = error instanceof TransportError && error.reason === "closed"
      throw endedWithSession && !closing.signal.aborted ? why : error
    }
  }

  const subscribe = async (signal: AbortSignal, begin: (session: FileTransport) => Promise<void>): Promise<void> => {
    await use(begin)
    if (signal.aborted) return
    subscriptions.add(begin)
    signal.addEventListener("abort", () => subscriptions.delete(begin), { once: true })
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
    queue: {
      publish: (postings) => use(({ queue }) => queue.publish(postings)),
      pull: (request, signal) => use(({ queue }) => queue.pull(request, signal)),
      claim: (claims) => use(({ queue }) => queue.claim(claims)),
      report: (reports) => use(({ queue }) => queue.report(reports)),
      settle: (settlements) => use(({ queue }) => queue.settle(settlements)),
      extend: (tokens) => use(({ queue }) => queue.extend(tokens)),
      stats: () => use(({ queue }) => queue.stats()),
      overdue: (now, max) => use(({ queue }) => queue.overdue(now, max)),
      waiting: (queueName, max) => use(({ queue }) => queue.waiting(queueName, max)),
    },
    records: {
      find: (id) => use(({ records }) => records.find(id)),
      change: (changes) => use(({ records }) => records.change(changes)),
      query: (query) => use(({ records }) => records.query(query)),
      watch: (filter, listener, signal) => subscribe(signal, ({ records }) => records.watch(filter, listener, signal)),
    },
    store: {
      get: (key) => use(({ store }) => store.get(key)),
      write: (operations) => use(({ store }) => store.write(operations)),
      list: (options) => use(({ store }) => store.list(options)),
      count: (prefix) => use(({ store }) => store.count(prefix)),
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
