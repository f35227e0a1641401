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
import { Result, Schema } from "effect"
import { CallboardError } from "../errors.ts"
import type { Receipt } from "../jobs/receipt.ts"
import type { Store } from "../transport/mod.ts"
import { IDEMPOTENCY_TTL_MS } from "./limits.ts"
import { ItemProblem, itemProblem } from "./problem.ts"
import { Durability } from "./schema.ts"

/** What came of each task of a request. */
export type Answers = ReadonlyArray<Receipt | CallboardError>

const Entry = Schema.Struct({
  fingerprint: Schema.String,
  ids: Schema.Array(Schema.String),
  state: Schema.Literals(["pending", "failed", "done"]),
  answers: Schema.optionalKey(
    Schema.Array(
      Schema.Union([
        Schema.Struct({
          id: Schema.String,
          state: Schema.Literals(["queued", "scheduled", "deferred"]),
          durability: Durability,
        }),
        ItemProblem,
      ]),
    ),
  ),
})
type Entry = typeof Entry.Type

const decodeEntry = Schema.decodeUnknownResult(Schema.fromJsonString(Entry))
const encoder = new TextEncoder()
const decoder = new TextDecoder()

const encode = (entry: Entry): Uint8Array => encoder.encode(JSON.stringify(entry))

const hash = (...parts: ReadonlyArray<string | Uint8Array>): string => {
  const digest = createHash("sha256")
  for (const part of parts) digest.update(part).update("\0")
  return digest.digest("base64url")
}

/** Two requests race for a key at most a few times. */
const TRIES = 10

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

/** What an earlier request under the key left. */
export type Earlier =
  | { readonly status: "done"; readonly answers: Answers }
  /** It may have been submitted, or not: submit these ids. */
  | { readonly status: "unfinished"; readonly ids: ReadonlyArray<string> }

const repeated = (kept: NonNullable<Entry["answers"]>[number]): Receipt | CallboardError => {
  if (!("code" in kept)) return { ...kept, duplicate: true }
  const { code, detail, status: _status, ...details } = kept
  return new CallboardError(code, detail, details)
}

/** One request under one key. */
export class IdempotentRequest {
  readonly #store: Store
  readonly #key: string
  readonly #fingerprint: string

  /** `caller` scopes the key: two tokens never meet. */
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
    this.#key = `idempotency/${hash(request.caller, request.key)}`
    this.#fingerprint = hash(request.contentType, request.bytes)
  }

  /** What is known about the key, if it was used for this body. Fails with `idempotency-mismatch`. */
  async earlier(): Promise<Earlier | undefined> {
    const found = await this.#store.get(this.#key)
    return found === undefined ? undefined : this.#judge(this.#entryOf(found.value))
  }

  /** Takes the key with fresh `ids`, unless another request was faster. Fails with `idempotency-mismatch`. */
  async take(ids: ReadonlyArray<string>): Promise<Earlier | "taken"> {
    const value = encode({ fingerprint: this.#fingerprint, ids, state: "pending" })
    for (let tried = 0; tried < TRIES; tried++) {
      if ((await this.#write(value, "absent")) === "written") return "taken"
      const found = await this.#store.get(this.#key)
      if (found === undefined) continue
      const earlier = this.#judge(this.#entryOf(found.value))
      if (earlier !== undefined) return earlier
      if ((await this.#write(value, { revision: found.revision })) === "written") return "taken"
    }
    throw new CallboardError("internal", "too many requests race for one Idempotency-Key")
  }

  #judge({ fingerprint, state, ids, answers }: Entry): Earlier | undefined {
    if (fingerprint === this.#fingerprint) {
      return answers === undefined ? { status: "unfinished", ids } : { status: "done", answers: answers.map(repeated) }
    }
    if (state === "failed") return undefined
    throw new CallboardError(
      "idempotency-mismatch",
      "this Idempotency-Key was used for another body: use a new key for a new request",
      { field: "Idempotency-Key" },
    )
  }

  /** Remembers the answer for repetitions. */
  done(answers: Answers): Promise<void> {
    const kept = answers.map((each) =>
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
    for (let tried = 0; tried < TRIES; tried++) {
      const found = await this.#store.get(this.#key)
      if (found === undefined) return
      const entry = this.#entryOf(found.value)
      if (entry.fingerprint !== this.#fingerprint) return
      if ((await this.#write(encode(to(entry)), { revision: found.revision })) === "written") return
    }
  }

  #write(value: Uint8Array, expect: "absent" | { readonly revision: string }): Promise<"written" | "conflict"> {
    return this.#store.write([{ key: this.#key, value, expect, ttl: IDEMPOTENCY_TTL_MS }])
  }

  #entryOf(value: Uint8Array): Entry {
    const decoded = decodeEntry(decoder.decode(value))
    if (Result.isSuccess(decoded)) return decoded.success
    throw new CallboardError("internal", `the entry of an Idempotency-Key cannot be read: ${decoded.failure.message}`)
  }
}
