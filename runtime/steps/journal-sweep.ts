/**
 * Looks for journals of ended jobs: ends the jobs that these have called, and gives the journals the time to live of their
 * record.
 */
import type { Connection } from "../connection/connection.ts"
import { cancelCalled } from "../jobs/commands/cancel.ts"
import { idFrom } from "../jobs/dependencies/edges.ts"
import { compact } from "../protocol/compact.ts"
import { isTerminal } from "../protocol/state.ts"
import { fold } from "./fold.ts"
import { decodePage, journalPrefix, OtherVersion, SHARDS, shardPrefix } from "./page.ts"
import { keepAll, readJournal } from "./pages.ts"
import { calledJobs, endsCalled } from "./waits.ts"

/** Whether a page has its time to live, or a worker of another version is to give it one. */
const isKept = (value: Uint8Array): boolean => {
  try {
    return decodePage(value).ended ?? false
  } catch (cause) {
    unlessLater(cause)
    return true
  }
}

const unlessLater = (cause: unknown): void => {
  if (!(cause instanceof OtherVersion)) throw cause
}

/** Pages that one round of the sweep reads at most. */
const SLICE = 50

/**
 * Finds journals of ended jobs that have no time to live yet, because the worker died before it could set one, or
 * because the job was ended by another process; the jobs that they have called may still run. Each round reads one part of one
 * shard.
 */
export class JournalSweep {
  #shard = 0
  #after: string | undefined

  /** Fails as the transport does. */
  async round(connection: Connection): Promise<void> {
    const { jobs, store } = connection
    const prefix = shardPrefix(this.#shard)
    const some = await store.list({
      prefix,
      limit: SLICE,
      ...compact({ after: this.#after }),
    })
    const runs = new Map<string, readonly [id: string, run: number]>()
    for (const { key, value } of some) {
      const [, , part = "", run = "", page = "", ...more] = key.split("/")
      if (more.length > 0 || !/^\d{6}$/.test(page) || isKept(value)) continue
      runs.set(`${part}/${run}`, [idFrom(part), Number(run)])
    }
    for (const [id, run] of runs.values()) {
      const record = (await jobs.find(id))?.record
      if (record !== undefined && record.run <= run && !isTerminal(record.state)) continue
      const keepMs = record?.run === run ? (record.keepMs ?? -1) : 0
      const journal = journalPrefix(id, run)
      try {
        if (record?.run === run && endsCalled(record)) {
          const { entries } = await readJournal(store, journal)
          await cancelCalled(connection, calledJobs(fold(entries)), record.terminated)
        }
        await keepAll(store, journal, keepMs)
      } catch (cause) {
        unlessLater(cause)
      }
    }
    this.#after = some.length < SLICE ? undefined : some.at(-1)?.key
    if (this.#after === undefined) this.#shard = (this.#shard + 1) % SHARDS
  }
}
