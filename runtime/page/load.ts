/** What a part of a view asks for. Each part asks for itself, so that each fails alone. */
import { effect, useSignal } from "@preact/signals"
import { useEffect } from "preact/hooks"
import { ApiError } from "./client.ts"
import { beat, epoch } from "./state.ts"

export interface Loaded<T> {
  /** The key that the value is of; another one than was asked for while the value before is kept. */
  readonly of: string
  /** The newest value; an older one while the next is asked for, or after a failure. */
  readonly data: T | undefined
  /** Why the last try failed. */
  readonly error: ApiError | undefined
  /** When the value came, by the clock of this machine. */
  readonly at: number | undefined
  /** It has taken so long that something is to be shown in its place. */
  readonly slow: boolean
  /** Asks again now. */
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
  /** Asked again at each so many beats, which come every two seconds while the page is seen. Defaults to never. */
  readonly every?: number
  /** Whether the value before is shown until that of another key is there. Defaults to false. */
  readonly keep?: boolean
}

/** After this many milliseconds a wait is shown. */
const SLOW_MS = 150

/** Asks for a value, and again when `key` changes; nothing is asked without a key. */
export const useLoad = <T>(
  key: string | undefined,
  ask: (signal: AbortSignal) => Promise<T>,
  { every = 0, keep = false }: LoadOptions = {},
): Loaded<T> => {
  const cell = useSignal<Cell<T>>({ key: "", slow: false })
  const again = useSignal(0)

  useEffect(() => {
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
      // What takes longer than its turn is not asked a second time meanwhile.
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
