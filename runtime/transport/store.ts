/** Keyed values with revisions, which workers share: limits, pauses, dependencies between jobs, the worker list, progress. */

/**
 * Names one version of a value or record. Not used again for the same key or id within an hour. Revisions of a store rise
 * with every write in the namespace, whatever the key (compared by length, then as text), so that they order the writes of
 * all processes. Revisions of records are opaque.
 */
export type Revision = string

export interface Store {
  /** One answer per key, in order. A read sees every write of any process that was answered before the read began. */
  get(keys: ReadonlyArray<string>): Promise<ReadonlyArray<Entry | undefined>>
  /**
   * Applies all operations or none. Returns the revision of each operation, in order (`""` for one that removed a value or
   * only checked). `conflict`: one expectation did not hold, and nothing was written. Expectations are compared with what was
   * stored before the write; of several operations on one key the last one counts.
   */
  write(operations: ReadonlyArray<StoreOperation>): Promise<ReadonlyArray<Revision> | "conflict">
  /** Entries whose key begins with `prefix`, in byte order of the UTF-8 keys. Begins after the key `after`. */
  list(range: {
    readonly prefix: string
    readonly after?: string
    readonly limit: number
    readonly reverse?: boolean
  }): Promise<ReadonlyArray<Entry>>
  /** The clock by which times to live are measured, in milliseconds since the epoch: that of the machine unless other machines reach it. */
  now(): Promise<number>
  /**
   * Calls the listener with changes below a prefix, from when the promise resolves until the signal fires: also with one
   * that is written right after that, by any process. Best effort, since a change during a reconnection may be lost.
   * `value` is absent when the key was removed or its time to live ended. A driver without `watch`: the runtime lists the
   * prefix once a second while it is watched.
   */
  watch?(
    prefix: string,
    listener: (change: { readonly key: string; readonly value?: Uint8Array }) => void,
    signal: AbortSignal,
  ): Promise<void>
}

export interface Entry {
  readonly key: string
  readonly value: Uint8Array
  readonly revision: Revision
}

export interface StoreOperation {
  /** 1 to 512 bytes of UTF-8. */
  readonly key: string
  /** The new value. `null` removes the key. Absent: only `expect` is checked. */
  readonly value?: Uint8Array | null
  /** The key must have this revision; `""`: the key must be absent. */
  readonly expect?: Revision
  /**
   * Time to live in milliseconds, at least 1,000. It ends up to 1.5 seconds late. Absent: the value stays, also if the one
   * before had a time to live.
   */
  readonly ttl?: number
}
