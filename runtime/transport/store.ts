/** Keyed values with revisions: what workers share (limits, pauses, edges between jobs, the worker list, progress). */

/**
 * Names one version of a value or record. Never used twice for the same key or id within an hour. Revisions of a store rise
 * with every write in its namespace, whatever the key (compared by length, then as text): what was written later has the
 * higher one, so that they can order what several processes have written. Revisions of records are opaque.
 */
export type Revision = string

export interface Store {
  /** One answer per key, in order. A read sees every write that was answered before it began, by anybody. */
  get(keys: ReadonlyArray<string>): Promise<ReadonlyArray<Entry | undefined>>
  /**
   * Does all operations or none. Answers with the revision of each operation, in order (`""` where it removed or only
   * checked); `conflict`: one expectation did not hold, and nothing was written.
   */
  write(operations: ReadonlyArray<StoreOperation>): Promise<ReadonlyArray<Revision> | "conflict">
  /** Entries whose key begins with `prefix`, in byte order of the UTF-8 keys. `after` is left out. */
  list(range: {
    readonly prefix: string
    readonly after?: string
    readonly limit: number
    readonly reverse?: boolean
  }): Promise<ReadonlyArray<Entry>>
  /** The clock that times to live are measured with, in milliseconds since the epoch. Never goes back. */
  now(): Promise<number>
  /**
   * Changes below a prefix, from when the promise resolves until the signal fires. Best effort. `value` is absent when the
   * key was removed or its time ended. Absent: the runtime lists the prefix once a second while it is watched.
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
  /** What to write; `null` removes the key; absent: only `expect` is checked. */
  readonly value?: Uint8Array | null
  /** The key must have this revision; `""`: the key must be absent. */
  readonly expect?: Revision
  /** The value is removed this many milliseconds later, at least 1,000. Absent: it stays, also if the value before had one. */
  readonly ttl?: number
}
