/**
 * Jobs whose tasks a external program has submitted, such as a client of Celery's, and that are ended without a delivery. The
 * process that ends one may not know where its submitter waits: an entry of the store names the job until a worker has told.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { allEntries, StoreEntry } from "../../async/store-entry.ts"
import { isExternal, parseTask } from "../../protocol/headers.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { isTerminal } from "../../protocol/state.ts"
import type { Jobs } from "../../transport/job-store/transport.ts"
import type { Store } from "../../transport/store.ts"

interface Where {
  readonly store: Store
  readonly jobs: Pick<Jobs, "find">
}

/** An entry lapses as results of Celery do: after a day. */
const ENTRIES = new StoreEntry("untold/", Schema.Literal(true), { ttlMs: 86_400_000 })

/** Notes a job before the record of its end is stored, so that no end remains untold. Fails as the store does. */
export const noteUnreported = async (store: Store, { id, message }: JobRecord): Promise<void> => {
  const task = message && Result.getOrUndefined(parseTask(message))
  if (task !== undefined && isExternal(task)) await store.write([ENTRIES.put(id, true)])
}

/** Calls `tell` with the record of each noted job that has ended so. Fails as the store and `tell` do; the rest stays noted. */
export const reportUnreported = async (
  { store, jobs }: Where,
  tell: (ended: JobRecord) => Promise<void>,
): Promise<void> => {
  for await (const { key } of allEntries(store, ENTRIES.prefix)) {
    const id = key.slice(ENTRIES.prefix.length)
    const record = (await jobs.find(id))?.record
    if (record !== undefined && !isTerminal(record.state)) continue
    if (record?.state === "cancelled" || record?.state === "expired") await tell(record)
    await store.write([ENTRIES.remove(id)])
  }
}
