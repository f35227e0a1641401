/**
 * Signatures: tasks to submit later, as Celery writes them into callbacks, chains and chords. Fields keep the names of the
 * wire, so that fields which are not known here travel on.
 */
import * as Result from "effect/Result"
import { MAX_DURATION_MS } from "../duration.ts"
import { isDecodedMap } from "../guards.ts"
import { HeaderProblem } from "../header-field.ts"
import type { Headers } from "../message.ts"
import { checkQueueName, isId, MAX_ID_BYTES } from "../name.ts"
import { OWN_HEADER, type OwnHeaders, ownOf } from "../own-headers.ts"
import { newTask, type Task } from "../task.ts"
import { parseTime } from "../time.ts"

/** A task to submit later. */
export interface Signature {
  readonly task: string
  readonly args: ReadonlyArray<unknown>
  readonly kwargs: Readonly<Record<string, unknown>>
  /** Options of Celery's `apply_async`. */
  readonly options: Readonly<Record<string, unknown>>
  /** `chain`, `group`, `chord`, `chunks`, `xmap` or `xstarmap`; `null` for a plain task. */
  readonly subtask_type: string | null
  /** True: the result of the task before it is not put before its arguments. */
  readonly immutable: boolean
  readonly [other: string]: unknown
}

/** Why a value is no signature. `field`: a path such as `callbacks[0].task`. */
export interface InvalidSignature {
  readonly _tag: "InvalidSignature"
  readonly field: string
  readonly message: string
}

const invalid = (field: string, why: string): Result.Result<never, InvalidSignature> =>
  Result.fail({ _tag: "InvalidSignature", field, message: `Signature: ${field} ${why}.` })

const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

const MAX_S = MAX_DURATION_MS / 1000

const NO_ARGS: ReadonlyArray<unknown> = Object.freeze([])
const EMPTY: Readonly<Record<string, unknown>> = Object.freeze({})

/**
 * Parses a signature. All fields but `task` may be absent. `at`: its path, for the error. Fails with
 * {@link InvalidSignature}.
 */
export const parseSignature = (value: unknown, at = "signature"): Result.Result<Signature, InvalidSignature> => {
  if (!isDecodedMap(value)) return invalid(at, "is not a map")
  const { task, args, kwargs, options, subtask_type, immutable } = value
  if (typeof task !== "string" || task === "") return invalid(`${at}.task`, "must be the name of a task")
  if (args !== undefined && args !== null && !isList(args)) return invalid(`${at}.args`, "must be a list")
  if (kwargs !== undefined && kwargs !== null && !isDecodedMap(kwargs)) return invalid(`${at}.kwargs`, "must be a map")
  if (options !== undefined && options !== null && !isDecodedMap(options))
    return invalid(`${at}.options`, "must be a map")
  if (subtask_type !== undefined && subtask_type !== null && typeof subtask_type !== "string") {
    return invalid(`${at}.subtask_type`, "must be text or null")
  }
  if (immutable !== undefined && immutable !== null && typeof immutable !== "boolean") {
    return invalid(`${at}.immutable`, "must be true or false")
  }
  return Result.succeed({
    ...value,
    task,
    args: args ?? NO_ARGS,
    kwargs: kwargs ?? EMPTY,
    options: options ?? EMPTY,
    subtask_type: subtask_type ?? null,
    immutable: immutable ?? false,
  })
}

/**
 * Parses a list of signatures, or a single one (Celery accepts both in `link`); `null` where there are none. Fails with
 * {@link InvalidSignature}.
 */
export const parseSignatures = (
  value: unknown,
  at: string,
): Result.Result<ReadonlyArray<Signature> | null, InvalidSignature> => {
  if (value === undefined || value === null) return Result.succeed(null)
  const items = isList(value) ? value : [value]
  const signatures: Array<Signature> = []
  for (const [index, item] of items.entries()) {
    const signature = parseSignature(item, isList(value) ? `${at}[${index}]` : at)
    if (Result.isFailure(signature)) return Result.fail(signature.failure)
    signatures.push(signature.success)
  }
  return Result.succeed(signatures)
}

/** Options that are not replaced when a signature is applied, as in Celery 5.6 (`_IMMUTABLE_OPTIONS`). */
const FIXED_OPTIONS: ReadonlyArray<string> = ["group_id", "stamped_headers"]

/** Arguments and options that are added to a signature when it is applied. */
export interface Application {
  /** Put before the signature's own arguments. */
  readonly args?: ReadonlyArray<unknown>
  /** Override those of the signature. */
  readonly kwargs?: Readonly<Record<string, unknown>>
  /** Override those of the signature, except `group_id`, `stamped_headers` and the stamps that these name. */
  readonly options?: Readonly<Record<string, unknown>>
}

/** The signature with added arguments and options. An immutable signature gets no arguments. */
export const applySignature = (signature: Signature, application: Application): Signature => {
  const { args = NO_ARGS, kwargs = EMPTY, options = EMPTY } = application
  const stamps = signature.options.stamped_headers
  const fixed = isList(stamps) ? [...FIXED_OPTIONS, ...stamps] : FIXED_OPTIONS
  const merged: Record<string, unknown> = { ...signature.options }
  for (const name of Object.keys(options)) {
    const kept = fixed.includes(name) && merged[name] !== undefined && merged[name] !== null
    if (!kept && name !== "__proto__") merged[name] = options[name]
  }
  if (signature.immutable) return { ...signature, options: merged }
  return {
    ...signature,
    args: args.length === 0 ? signature.args : [...args, ...signature.args],
    kwargs: { ...signature.kwargs, ...kwargs },
    options: merged,
  }
}

/** The task of a signature, and what its options say about the message. */
export interface SignatureTask {
  readonly task: Task
  /** Where it goes; nothing when the signature does not say. */
  readonly queue: string | null
  /** 0–9, or nothing. */
  readonly priority: number | null
  readonly replyTo: string | null
  readonly callbacks: ReadonlyArray<Signature> | null
  readonly errbacks: ReadonlyArray<Signature> | null
  /** In wire order: the next one last. */
  readonly chain: ReadonlyArray<Signature> | null
  readonly chord: Signature | null
}

const textOption = (options: Signature["options"], name: string): string | null => {
  const value = options[name]
  return typeof value === "string" && value !== "" ? value : null
}

const numberOption = (options: Signature["options"], name: string): number | null => {
  const value = options[name]
  return typeof value === "number" && Number.isFinite(value) ? value : null
}

/** The first wrong option of a signature, found before a message is sent that its receiver could not read. */
const optionProblem = (options: Signature["options"]): InvalidSignature | undefined => {
  const wrong = (name: string, why: string): InvalidSignature => ({
    _tag: "InvalidSignature",
    field: `options.${name}`,
    message: `Signature: options.${name} ${why}.`,
  })
  for (const name of ["task_id", "root_id", "parent_id", "group_id"]) {
    const id = textOption(options, name)
    if (id !== null && !isId(id)) return wrong(name, `must be well-formed text of at most ${MAX_ID_BYTES} bytes`)
  }
  for (const name of ["queue", "routing_key"]) {
    const queue = textOption(options, name)
    const checked = queue === null ? undefined : checkQueueName(queue)
    if (checked !== undefined && Result.isFailure(checked))
      return wrong(name, `is not a queue: ${checked.failure.message}`)
    // Celery uses the first one that is set.
    if (queue !== null) break
  }
  for (const name of ["time_limit", "soft_time_limit"]) {
    const value = options[name] ?? 0
    if (!(typeof value === "number" && value >= 0 && value <= MAX_S)) {
      return wrong(name, "must be a number of seconds, at most a hundred years")
    }
  }
  const { countdown = null, group_index: index = null, expires = null } = options
  if (countdown !== null && !(typeof countdown === "number" && Math.abs(countdown) <= MAX_S)) {
    return wrong("countdown", "must be a number of seconds, at most a hundred years")
  }
  if (typeof expires === "number" && Math.abs(expires) > MAX_S) {
    return wrong("expires", "must be a time, or a number of seconds, at most a hundred years")
  }
  if (index !== null && !(typeof index === "number" && Number.isSafeInteger(index) && index >= 0)) {
    return wrong("group_index", "must be a whole number, 0 or more")
  }
  return undefined
}

/** Parses a time: text or a `Date`, or a number of seconds from `now`. */
const momentOption = (
  options: Signature["options"],
  name: string,
  now: number,
): Result.Result<number | null, InvalidSignature> => {
  const value = options[name]
  if (value === undefined || value === null) return Result.succeed(null)
  if (typeof value === "number" && Number.isFinite(value)) return Result.succeed(now + value * 1000)
  if (value instanceof Date) return Result.succeed(value.getTime())
  const parsed = typeof value === "string" ? parseTime(value) : undefined
  if (parsed !== undefined && Result.isSuccess(parsed)) return Result.succeed(parsed.success)
  return invalid(`options.${name}`, "must be an ISO 8601 time or a number of seconds")
}

const stampsOf = (options: Signature["options"]): Pick<Task, "stampedHeaders" | "stamps"> => {
  const names = options.stamped_headers
  if (!isList(names)) return { stampedHeaders: null, stamps: EMPTY }
  const texts = names.filter((name) => typeof name === "string" && name !== "__proto__")
  const stamps: Record<string, unknown> = {}
  for (const name of texts) if (typeof name === "string" && options[name] !== undefined) stamps[name] = options[name]
  return { stampedHeaders: texts.filter((name) => typeof name === "string"), stamps }
}

/**
 * Our own header of the task, as a client of Celery's sets it (`header`), and as one of ours does (`option`), without the fields
 * that are about one message.
 */
const ownOption = (header: unknown, option: unknown): OwnHeaders | HeaderProblem => {
  if (header === undefined && option === undefined) return EMPTY
  const problem = [header, option].map(ownOf).find((each) => each instanceof HeaderProblem)
  if (problem !== undefined) return problem
  const given = { ...(isDecodedMap(header) ? header : EMPTY), ...(isDecodedMap(option) ? option : EMPTY) }
  const { run: _run, from: _from, fromStep: _step, hops: _hops, forwards: _forwards, ...rest } = given
  const { submittedAt: _at, attempted: _before, link: _link, ...kept } = rest
  return ownOf(kept)
}

const withoutOwn = ({ [OWN_HEADER]: _own, ...custom }: Headers): Headers => custom

/**
 * The task of a signature that is submitted now. `id`: used where the signature has none; `rootId` and `parentId`: those of
 * the task that submits it; `countdown` and a number in `expires` count from `now`. Fails with {@link InvalidSignature}
 * where an option that routes or times the task is wrong.
 */
export const taskOfSignature = (
  signature: Signature,
  given: { readonly id: string; readonly now: number; readonly rootId?: string; readonly parentId?: string },
): Result.Result<SignatureTask, InvalidSignature> => {
  const { options } = signature
  const problem = optionProblem(options)
  if (problem !== undefined) return Result.fail(problem)
  const expires = momentOption(options, "expires", given.now)
  if (Result.isFailure(expires)) return Result.fail(expires.failure)
  const eta = momentOption(options, "eta", given.now)
  if (Result.isFailure(eta)) return Result.fail(eta.failure)
  const countdown = numberOption(options, "countdown")
  const callbacks = parseSignatures(options.link, "options.link")
  if (Result.isFailure(callbacks)) return Result.fail(callbacks.failure)
  const errbacks = parseSignatures(options.link_error, "options.link_error")
  if (Result.isFailure(errbacks)) return Result.fail(errbacks.failure)
  const chain = parseSignatures(options.chain, "options.chain")
  if (Result.isFailure(chain)) return Result.fail(chain.failure)
  const hasChord = options.chord !== undefined && options.chord !== null
  const chord = hasChord ? parseSignature(options.chord, "options.chord") : Result.succeed(null)
  if (Result.isFailure(chord)) return Result.fail(chord.failure)
  const headers = isDecodedMap(options.headers) ? options.headers : EMPTY
  const own = ownOption(headers[OWN_HEADER], options.callboard)
  if (own instanceof HeaderProblem) return invalid("options.callboard", `cannot be read: ${own.field} ${own.why}`)
  const id = textOption(options, "task_id") ?? given.id
  return Result.succeed({
    task: newTask({
      task: signature.task,
      id,
      rootId: textOption(options, "root_id") ?? given.rootId ?? id,
      parentId: textOption(options, "parent_id") ?? given.parentId ?? null,
      group: textOption(options, "group_id"),
      groupIndex: numberOption(options, "group_index"),
      shadow: textOption(options, "shadow"),
      eta: countdown === null ? eta.success : given.now + countdown * 1000,
      expires: expires.success,
      timelimit: { hard: numberOption(options, "time_limit"), soft: numberOption(options, "soft_time_limit") },
      ignoreResult: options.ignore_result === true,
      ...stampsOf(options),
      own,
      custom: OWN_HEADER in headers ? withoutOwn(headers) : headers,
    }),
    queue: textOption(options, "queue") ?? textOption(options, "routing_key"),
    priority: numberOption(options, "priority"),
    replyTo: textOption(options, "reply_to"),
    callbacks: callbacks.success,
    errbacks: errbacks.success,
    chain: chain.success,
    chord: chord.success,
  })
}
