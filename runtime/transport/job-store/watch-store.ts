/** Watches a prefix of a store. Where the store has no `watch`, the prefix is listed once a second to find changes. */
import type { Entry, Revision, Store } from "../store.ts"
import { sleep } from "../timers.ts"

const LOOK_MS = 1_000
const PAGE = 1_000

/** How long it takes until each process that watches a store without `watch` has surely listed it anew. */
const HEARD_MS = LOOK_MS + 500

/** Resolves once the processes that watch a store, and can reach it, have heard of what was written before. */
export const untilHeard = async ({ watch }: Pick<Store, "watch">): Promise<void> => {
  if (watch === undefined) await sleep(HEARD_MS)
}

const listAll = async (store: Store, prefix: string): Promise<ReadonlyArray<Entry>> => {
  const entries: Array<Entry> = []
  let after: string | undefined
  for (;;) {
    const page = await store.list({ prefix, limit: PAGE, ...(after === undefined ? {} : { after }) })
    entries.push(...page)
    after = page.at(-1)?.key
    if (page.length < PAGE) return entries
  }
}

/** Calls the listener with changes from when the promise resolves until the signal fires. */
export const watchStore = (
  store: Store,
  prefix: string,
  listener: (change: { readonly key: string; readonly value?: Uint8Array }) => void,
  signal: AbortSignal,
): Promise<void> =>
  store.watch === undefined ? poll(store, prefix, listener, signal) : store.watch(prefix, listener, signal)

const poll = async (
  store: Store,
  prefix: string,
  listener: (change: { readonly key: string; readonly value?: Uint8Array }) => void,
  signal: AbortSignal,
): Promise<void> => {
  if (signal.aborted) return
  let seen = new Map((await listAll(store, prefix)).map(({ key, revision }) => [key, revision]))
  const look = async (): Promise<void> => {
    const found = await listAll(store, prefix)
    if (signal.aborted) return
    const now = new Map<string, Revision>()
    for (const { key, value, revision } of found) {
      now.set(key, revision)
      if (seen.get(key) !== revision) listener({ key, value })
    }
    for (const key of seen.keys()) if (!now.has(key)) listener({ key })
    seen = now
  }
  let timer: ReturnType<typeof setTimeout> | undefined
  const again = (): void => {
    timer = setTimeout(() => {
      // A store that cannot be reached is listed again a second later.
      void look()
        .catch(() => undefined)
        .finally(() => {
          if (!signal.aborted) again()
        })
    }, LOOK_MS)
    timer.unref?.()
  }
  signal.addEventListener("abort", () => clearTimeout(timer), { once: true })
  again()
}
