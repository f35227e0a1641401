/** Watches jobs. A record comes with the driver's news or is read; run notes come from a watch on the store. */
import type { JobRecord } from "../../protocol/record.ts"
import { decoder } from "../../protocol/text.ts"
import type { Driver, News } from "../driver.ts"
import { decodeStored } from "./codec.ts"
import type { Finder } from "./find.ts"
import { NOTES, noteKey } from "./notes.ts"
import type { OwnEnds } from "./own-ends.ts"
import { watchStore } from "./watch-store.ts"

/** Resolves once it listens. Ends when the signal fires. */
export const watchJobs = async (
  driver: Driver,
  finder: Finder,
  only: string | undefined,
  listener: (record: JobRecord) => void,
  signal: AbortSignal,
): Promise<void> => {
  if (signal.aborted) return
  /** Jobs that are being read. `again`: news came during the read, which may have missed it, so the job is read again. */
  const looks = new Map<string, "once" | "again">()
  const look = async (id: string): Promise<void> => {
    if (looks.has(id)) {
      looks.set(id, "again")
      return
    }
    for (let more = true; more && !signal.aborted; more = looks.get(id) === "again") {
      looks.set(id, "once")
      // Watching is best effort: callers also look by themselves now and then, so a failed read may be skipped.
      const found = await finder.find(id).catch(() => undefined)
      if (found !== undefined && !signal.aborted) listener(found.record)
    }
    looks.delete(id)
  }
  const hear = (news: News): void => {
    if (signal.aborted) return
    if (news.kind === "missed") {
      if (only !== undefined) void look(only)
    } else if (news.kind === "job" && (only === undefined || only === news.id)) {
      const record = looks.has(news.id) ? undefined : recordIn(news.record)
      if (record === undefined) void look(news.id)
      else listener(record)
    }
  }
  /** Last content of each note. A note that was only renewed is not reported again. */
  const said = new Map<string, string>()
  const prefix = only === undefined ? NOTES : noteKey(only)
  const listening = driver.listen(only === undefined ? { kind: "jobs" } : { kind: "job", id: only }, hear, signal)
  const noting = watchStore(
    driver.store,
    prefix,
    ({ key, value }) => {
      const id = key.slice(NOTES.length)
      if (only !== undefined && only !== id) return
      const text = value && decoder.decode(value)
      if (text === undefined) said.delete(id)
      else if (said.get(id) !== text) {
        said.set(id, text)
        // The note may be of a run that has ended, so the job is read instead of showing the note.
        void look(id)
      }
    },
    signal,
  )
  await Promise.all([listening, noting])
}

/**
 * Watches a job for its end, which is always a stored record: no task and no run note is followed. Resolves when each end is
 * either reported, or found by {@link Finder.ended} from then on. A driver that is closed reports nothing more; `closing`
 * is asked and not listened to, since a signal of both takes longer to make and to fire than all else of a wait. `ownEnds`:
 * where the job was submitted just now, so that its end may come from this process.
 */
export const watchEnd = async (
  { driver, finder, ownEnds }: { readonly driver: Driver; readonly finder: Finder; readonly ownEnds?: OwnEnds },
  id: string,
  listener: (record: JobRecord) => void,
  signal: AbortSignal,
  closing: AbortSignal,
): Promise<void> => {
  if (signal.aborted) return
  const isOver = (): boolean => signal.aborted || closing.aborted
  const hear = async (news: News): Promise<void> => {
    if (isOver() || news.kind === "queue" || (news.kind === "job" && news.id !== id)) return
    const told = news.kind === "job" ? recordIn(news.record) : undefined
    // Watching is best effort: callers also look by themselves now and then, so a failed read may be skipped.
    const record = told ?? (await finder.ended(id).catch(() => undefined))
    if (record !== undefined && !isOver()) listener(record)
  }
  await ownEnds?.wait(id, (stored) => void hear({ kind: "job", id, record: stored }), signal)
  if (isOver()) return
  await driver.listen({ kind: "job", id, ends: true }, (news) => void hear(news), signal)
}

const recordIn = (bytes: Uint8Array | undefined): JobRecord | undefined => {
  if (bytes === undefined) return undefined
  try {
    return decodeStored(bytes)
  } catch {
    return undefined
  }
}
