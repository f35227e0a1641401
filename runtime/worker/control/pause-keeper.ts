/** Keeps a worker to what was paused and suspended: what it wants to pull changes with the store. */

import { isSuspended, PAUSE_PREFIX, SUSPEND_PREFIX } from "../../cluster/pausing.ts"
import type { Board } from "../../connection/board.ts"
import { StoreMirror } from "../../connection/store-mirror.ts"
import type { Log } from "../../log/log.ts"
import type { Appetite } from "../fetch/queue-list.ts"

export interface PauseKeeperOptions {
  readonly board: Board
  /** Name of the worker. */
  readonly name: string
  readonly appetite: Appetite
  /** Called after each change. */
  readonly onChange: () => void
  readonly log: Log
  readonly signal: AbortSignal
}

/** Resolves once what is paused is known; until then nothing may be pulled. */
export const keepPauses = async (options: PauseKeeperOptions): Promise<void> => {
  const { board, name, appetite, onChange, log, signal } = options
  const mirror = (prefix: string, change: (keys: ReadonlyArray<string>) => void): StoreMirror<true> => {
    const entries = new StoreMirror<true>({
      board,
      prefix,
      decode: () => true,
      onChange: () => {
        change([...entries.entries.keys()])
        onChange()
      },
      log,
      signal,
    })
    return entries
  }
  const paused = mirror(PAUSE_PREFIX, (keys) => appetite.pause(keys.map((key) => key.slice(PAUSE_PREFIX.length))))
  const suspended = mirror(SUSPEND_PREFIX, (keys) => appetite.suspend(isSuspended(keys, name)))
  await Promise.all([paused.ready, suspended.ready])
}
