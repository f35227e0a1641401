/** Loads the data of one part of a view. Each part loads its own, so that a failure concerns one part alone. */
import { effect, useSignal } from "@preact/signals"
import { useLayoutEffect } from "preact/hooks"
import { ApiError } from "./client.ts"
import { beat, epoch } from "./state.ts"

export interface Loaded<T> {
  /** The key that the value belongs to. It differs from the requested key while the value before is kept. */
  readonly of: string
  /** The newest value; an older one while the next is loaded, or after a failure. */
  readonly data: T | undefined
  /** Why the last request failed. */
  readonly error: ApiError | undefined
  /** When the value was loaded, by this machine's clock. */
  readonly at: number | undefined
  /** The request takes so long that a placeholder is to be shown. */
  readonly slow: boolean
  /** Loads the value again now. */
  readonly reload: () => void
}

interface Cell<T> {
  readonly key: string
  /** The key of the value. */
  readonly of?: string
  readonly data?: T
  readonly error?: ApiError
  readonly at?: number
  readonly slow: boolean
}

export interface LoadOptions {
  /**
   * The value is loaded again after this number of beats; a beat comes every two seconds while the page is visible.
   * Defaults to never.
   */
  readonly every?: number
  /** Whether the value before stays until that of another key is loaded. Defaults to false. */
  readonly keep?: boolean
}

/** Milliseconds after which a placeholder is shown. */
const SLOW_MS = 150

/** Loads a value, and loads it again when `key` changes. Without a key nothing is loaded. */
export const useLoad = <T>(
  key: string | undefined,
  ask: (signal: AbortSignal) => Promise<T>,
  { every = 0, keep = false }: LoadOptions = {},
): Loaded<T> => {
  const cell = useSignal<Cell<T>>({ key: "", slow: false })
  const again = useSignal(0)

  // Before the browser paints, which takes long on a phone: the request need not wait for it.
  useLayoutEffect(() => {
    if (key === undefined) return
    let stop = new AbortController()
    let isAsking = false
    const before = cell.peek()
    if (before.key !== key) cell.value = keep ? { ...before, key } : { key, slow: false }

    const run = async (): Promise<void> => {
      stop.abort()
      stop = new AbortController()
      const { signal } = stop
      isAsking = true
      const timer = setTimeout(() => {
        if (cell.peek().data === undefined) cell.value = { ...cell.peek(), slow: true }
      }, SLOW_MS)
      try {
        const data = await ask(signal)
        if (!signal.aborted) cell.value = { key, of: key, data, at: Date.now(), slow: false }
      } catch (error) {
        if (signal.aborted) return
        if (!(error instanceof ApiError)) throw error
        const { error: _before, ...rest } = cell.peek()
        cell.value = { ...rest, key, error, slow: false }
      } finally {
        clearTimeout(timer)
        if (!signal.aborted) isAsking = false
      }
    }

    let beats = 0
    let seen = { epoch: epoch.peek(), again: again.peek() }
    void run()
    const end = effect(() => {
      const next = { epoch: epoch.value, again: again.value }
      const isAnew = next.epoch !== seen.epoch || next.again !== seen.again
      seen = next
      if (every > 0 && beat.value > 0) beats++
      // A request that takes longer than its interval is not made a second time meanwhile.
      if (isAnew || (every > 0 && beats > every && !isAsking)) {
        beats = 0
        void run()
      }
    })
    return () => {
      end()
      stop.abort()
    }
  }, [key, every])

  const { data, error, at, slow } = cell.value
  const isOwn = cell.value.key === key || keep
  return {
    of: cell.value.of ?? "",
    data: isOwn ? data : undefined,
    error: isOwn ? error : undefined,
    at: isOwn ? at : undefined,
    slow,
    reload: () => {
      again.value++
    },
  }
}
