/**
 * `Idempotency-Key`: the same request twice is one submission. The ids of a request are stored under its key before
 * anything is published, so that a repetition, also one at the same time or after a crash, submits the same ids; those
 * are accepted once. Once the answer is known it is stored too, and repeated without asking the queue.
 *
 * | entry     | the same body                | another body                    |
 * |-----------|------------------------------|---------------------------------|
 * | `pending` | submits again, with its ids  | `idempotency-mismatch`          |
 * | `failed`: nothing was accepted | the same | takes the key over             |
 * | `done`    | its answer again             | `idempotency-mismatch`          |
 */
import { createHash } from "node:crypto"
import * as Schema from "effect/Schema"
import { type StoredEntry, StoreEntry } from "../async/store-entry.ts"
import { CallboardError } from "../errors.ts"
import { errorOf } from "../jobs/problem-error.ts"
import type { Receipt } from "../jobs/receipt.ts"
import { Durability, ItemProblem, StateSchema } from "../jobs/responses.ts"
import type { Store } from "../transport/store.ts"
import { IDEMPOTENCY_TTL_MS } from "./limits.ts"
import { itemProblem } from "./response.ts"

/** Per task of a request: its receipt, or why it was not accepted. */
export type SubmitResults = ReadonlyArray<Receipt | CallboardError>

const Entry = Schema.Struct({
  fingerprint: Schema.String,
  ids: Schema.Array(Schema.String),
  state: Schema.Literals(["pending", "failed", "done"]),
  answers: Schema.optionalKey(
    Schema.Array(
      Schema.Union([
        Schema.Struct({
          id: Schema.String,
          state: StateSchema,
          durability: Durability,
        }),
        ItemProblem,
      ]),
    ),
  ),
})
type Entry = typeof Entry.Type

/** Entries of the store, named by a hash of caller and key. */
const REQUESTS = new StoreEntry("idempotency/", Entry, { ttlMs: IDEMPOTENCY_TTL_MS })

const hash = (...parts: ReadonlyArray<string | Uint8Array>): string => {
  const digest = createHash("sha256")
  for (const part of parts) digest.update(part).update("\0")
  return digest.digest("base64url")
}

/** The key of a request's header. Fails with `invalid-input`. */
export const parseKey = (header: string | null): string | undefined => {
  if (header === null) return undefined
  // The draft of the IETF writes it as a quoted string; most clients do not.
  const key = header.trim().replace(/^"(.*)"$/, "$1")
  if (/^[\x21-\x7e]{1,255}$/.test(key)) return key
  throw new CallboardError("invalid-input", "Idempotency-Key: use 1 to 255 visible ASCII characters", {
    field: "Idempotency-Key",
  })
}

/** What an earlier request stored under the key. */
export type EarlierRequest =
  | { readonly status: "done"; readonly results: SubmitResults }
  /** Its tasks may have been submitted: submit them again under these ids, which adds none twice. */
  | { readonly status: "unfinished"; readonly ids: ReadonlyArray<string> }

const repeated = (kept: NonNullable<Entry["answers"]>[number]): Receipt | CallboardError => {
  return "code" in kept ? errorOf(kept) : { ...kept, duplicate: true }
}

/** One request under one key. */
export class IdempotentRequest {
  readonly #store: Store
  readonly #name: string
  readonly #fingerprint: string

  /** `caller` scopes the key: the same key under another token is another request. */
  constructor(
    store: Store,
    request: {
      readonly caller: string
      readonly key: string
      readonly contentType: string
      readonly bytes: Uint8Array
    },
  ) {
    this.#store = store
    this.#name = hash(request.caller, request.key)
    this.#fingerprint = hash(request.contentType, request.bytes)
  }

  /** What is known about the key, if it was used for this body. Fails with `idempotency-mismatch`. */
  async earlier(): Promise<EarlierRequest | undefined> {
    const found = await REQUESTS.get(this.#store, this.#name)
    return found === undefined ? undefined : this.#compare(entryOf(found))
  }

  /** Reserves the key for `ids`, unless another request has reserved it. Fails with `idempotency-mismatch`. */
  async reserve(ids: ReadonlyArray<string>): Promise<EarlierRequest | "reserved"> {
    const value: Entry = { fingerprint: this.#fingerprint, ids, state: "pending" }
    let earlier: EarlierRequest | undefined
    const reserving = await REQUESTS.change(
      this.#store,
      this.#name,
      (found) => {
        earlier = found === undefined ? undefined : this.#compare(entryOf(found))
        return earlier === undefined ? { value } : "keep"
      },
      { assumeAbsent: true },
    )
    if (reserving === "conflict") {
      throw new CallboardError("internal", "too many concurrent requests use the same Idempotency-Key; try again")
    }
    return earlier ?? "reserved"
  }

  #compare({ fingerprint, state, ids, answers }: Entry): EarlierRequest | undefined {
    if (fingerprint === this.#fingerprint) {
      return answers === undefined ? { status: "unfinished", ids } : { status: "done", results: answers.map(repeated) }
    }
    if (state === "failed") return undefined
    throw new CallboardError(
      "idempotency-mismatch",
      "this Idempotency-Key was used for another body: use a new key for a new request",
      { field: "Idempotency-Key" },
    )
  }

  /** Remembers the answer for repetitions. */
  done(results: SubmitResults): Promise<void> {
    const kept = results.map((each) =>
      each instanceof CallboardError
        ? itemProblem(each)
        : { id: each.id, state: each.state, durability: each.durability },
    )
    return this.#change((entry) => ({ ...entry, state: "done", answers: kept }))
  }

  /** Nothing was accepted: the key may be used for another body. */
  failed(): Promise<void> {
    return this.#change((entry) => (entry.state === "done" ? entry : { ...entry, state: "failed" }))
  }

  async #change(to: (entry: Entry) => Entry): Promise<void> {
    await REQUESTS.change(this.#store, this.#name, (found) => {
      if (found === undefined) return "keep"
      const entry = entryOf(found)
      return entry.fingerprint === this.#fingerprint ? { value: to(entry) } : "keep"
    })
  }
}

const entryOf = ({ value }: StoredEntry<Entry>): Entry => {
  if (value !== undefined) return value
  throw new CallboardError(
    "internal",
    "the entry of this Idempotency-Key cannot be read, because another version wrote it; use a new key",
  )
}
