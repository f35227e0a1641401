/**
 * A task that is the body of a chord, taken apart: the body, and the members that it waits for, each as a task of its own with
 * its place in the group. A member may be a body itself, or have a chain, whose last link then counts as the member.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { CallboardError } from "../../errors.ts"
import { Name } from "../../options/fields.ts"
import { resultOf } from "../../options/refusal.ts"
import { refuseInput as refuse } from "../../options/refuse.ts"
import { compact } from "../../protocol/compact.ts"
import { type ChordHeader, MAX_MEMBERS, type MemberHeader } from "../../protocol/headers.ts"
import type { Promised } from "../tracking/promises.ts"
import { type FanOut, type FollowUp, withPromises } from "./follow-ups.ts"

const Tasks = Schema.Array(
  Schema.StructWithRest(Schema.Struct({ task: Schema.String }), [Schema.Record(Schema.String, Schema.Unknown)]),
)
  .check(Schema.isMinLength(1), Schema.isMaxLength(MAX_MEMBERS))
  .annotate({ description: "Tasks, with the same fields as a single submitted task" })

/** The group that a task waits for. */
export const ChordField = Schema.Union([
  Tasks,
  Schema.Struct({
    tasks: Tasks,
    group: Schema.optionalKey(Name.annotate({ description: "Name of the group; the default is the id of this job" })),
    allowFailure: Schema.optionalKey(
      Schema.Boolean.annotate({
        description: "Start even if members fail: the job then gets a reference in place of a result",
      }),
    ),
    immutable: Schema.optionalKey(
      Schema.Boolean.annotate({ description: "Do not prepend the results to its own arguments" }),
    ),
  }),
]).annotate({
  description:
    "Members of a group, submitted with this task. The task starts once all have succeeded, and the list of their results is prepended to its arguments",
})

/** Where a task belongs: the chord that it is a member of, and the one whose body it is. */
export interface Placement {
  readonly member?: MemberHeader
  readonly chord?: ChordHeader
  readonly group?: string
  readonly groupIndex?: number
  readonly rootId: string
  /** Members that follow the task, or the last link of its chain. */
  readonly fanOut?: FanOut
}

/** A task of a submission that has been taken apart. */
export interface Placed<S> {
  readonly submission: S
  readonly id: string
  readonly placement?: Placement
  /** Of a body: the jobs of each member, in the order in which they run. */
  readonly members?: ReadonlyArray<ReadonlyArray<string>>
  /** Of a member: its place in the submission, such as `chord[3].chord[0]`. */
  readonly path?: string
  /** Of a member: ids of its callbacks and links that can be waited for before they exist. */
  readonly promised?: ReadonlyArray<Promised>
}

/** What this needs of a checked submission. */
interface Body {
  readonly id?: string
  readonly callbacks?: ReadonlyArray<FollowUp>
  readonly rootId?: string
  readonly group?: string
  readonly chain?: ReadonlyArray<FollowUp>
  readonly errbacks?: ReadonlyArray<FollowUp>
  readonly chord?: typeof ChordField.Type
}

/** Whether a submission is taken apart. */
export const hasChord = ({ chord, chain = [] }: Pick<Body, "chord" | "chain">): boolean =>
  chord !== undefined || chain.some((link) => link.chord !== undefined)

/** Most chords that are in each other, or follow each other in a chain. Each of them is taken apart with all that are in it. */
const MAX_NESTED = 100

interface Given<S> {
  /** Checks the shape of a member. */
  readonly parse: (value: unknown) => Result.Result<S, CallboardError>
  /** Root of the submission, where its caller has one. */
  readonly rootId: string | undefined
}

/**
 * The task itself, and its members if it has a `chord`: each body before its members. Ids that are not given are made of the
 * body's, so that a body that is submitted again has the same members. Fails with what is wrong with a member, naming the field.
 */
export const placedOf = <S extends Body>(
  submission: S,
  id: string,
  given: Given<S>,
): Result.Result<ReadonlyArray<Placed<S>>, CallboardError> =>
  !hasChord(submission)
    ? Result.succeed([{ submission, id }])
    : resultOf(() => place(submission, id, given, { rootId: submission.rootId ?? given.rootId ?? id }))

const place = <S extends Body>(
  submission: S,
  id: string,
  given: Given<S>,
  placement: Placement,
  depth = 0,
): ReadonlyArray<Placed<S>> => {
  if (!hasChord(submission)) return [{ submission, id, placement }]
  if (depth === MAX_NESTED) refuse("chord", `more than ${MAX_NESTED} chords are nested, or in one chain`)
  if (submission.chain?.some((link) => link.chord !== undefined))
    return placeChain(submission, id, given, placement, depth)
  const { tasks, group = id, allowFailure, immutable } = chordOf(submission.chord ?? [])
  const all: Array<Placed<S>> = []
  const members: Array<ReadonlyArray<string>> = []
  for (const [at, value] of tasks.entries()) {
    const parsed = Result.flatMap(given.parse(value), (member) =>
      resultOf(() => {
        if (member.group !== undefined) refuse("group", "is set by the chord: leave it out")
        const own = member.id ?? `${id}-${at}`
        const { promised } = withPromises(member, own)
        const { chain = [] } = member
        // The ids of the links are fixed now: where the chain breaks, it must be known what would have come.
        const links = chain.map((link, n) => ({ ...link, id: link.id ?? `${own}-c${n + 1}` }))
        members.push([own, ...links.map((link) => link.id)])
        const header: MemberHeader = { of: id, at, ...(links.length === 0 ? {} : { more: true }) }
        const { rootId } = placement
        const inside = { member: header, group, groupIndex: at, rootId: member.rootId ?? rootId }
        const placed = place(links.length === 0 ? member : { ...member, chain: links }, own, given, inside, depth + 1)
        return promised.length === 0 ? placed : placed.map((each, n) => (n === 0 ? { ...each, promised } : each))
      }),
    )
    const here = `chord[${at}]`
    if (Result.isFailure(parsed)) throw ofMember(parsed.failure, here)
    for (const { path, ...placed } of parsed.success)
      all.push({ ...placed, path: path === undefined ? here : `${here}.${path}` })
  }
  const chord: ChordHeader = {
    size: tasks.length,
    ...(allowFailure ? { allowFailure } : {}),
    ...(immutable ? { immutable } : {}),
  }
  return [{ submission, id, placement: { ...placement, chord }, members }, ...all]
}

/**
 * A task with a chain in which a link has a chord: that link is a body, submitted with the task, and the members of its chord
 * follow the link before. The links after it are the chain of the body.
 */
const placeChain = <S extends Body>(
  submission: S,
  id: string,
  given: Given<S>,
  placement: Placement,
  depth: number,
): ReadonlyArray<Placed<S>> => {
  const { chain = [], errbacks = [] } = submission
  const links = chain.map((link, n) => ({ ...link, id: link.id ?? `${id}-c${n + 1}` }))
  const at = links.findIndex((link) => link.chord !== undefined)
  const before = links.slice(0, at)
  const { chord: tasks = [], immutable, delay, expires, ...link } = links[at] ?? refuse("chain", "has no chord")
  const field = `chain[${at}]`
  if (delay !== undefined) refuse(`${field}.delay`, "is only for links without a chord: set it on the members")
  if (expires !== undefined) refuse(`${field}.expires`, "is only for links without a chord: set it on the members")
  const members = tasks.map((task, place) => ({ ...task, id: task.id ?? `${link.id}-${place}` }))
  const promised = members.flatMap((each, place): ReadonlyArray<Promised> => {
    const isNamed = tasks[place]?.id !== undefined
    return isNamed ? [[id, ...before.map((link) => link.id), each.id]] : []
  })
  const ids = [id, ...links.map((each) => each.id), ...members.map((each) => each.id)]
  const known = new Set<string>()
  for (const each of ids) {
    if (known.has(each)) refuse(`${field}.chord`, `id ${each} is used twice`)
    known.add(each)
  }
  const { member, group, groupIndex, rootId } = placement
  const fanOut: FanOut = {
    group: link.id,
    tasks: members.map((task, place) => ({ task, member: { of: link.id, at: place } })),
  }
  const inHead = { ...placement, ...(member === undefined ? {} : { member: { ...member, more: true as const } }) }
  const ahead = { ...submission, chain: before.length === 0 ? undefined : before }
  const head = place(ahead, id, given, inHead, depth)
  const chord: ChordHeader = { size: members.length, ...(immutable ? { immutable } : {}) }
  const rest = links.slice(at + 1)
  const parsed = given.parse({
    ...link,
    ...(errbacks.length + (link.errbacks ?? []).length === 0
      ? {}
      : { errbacks: [...errbacks, ...(link.errbacks ?? [])] }),
  })
  if (Result.isFailure(parsed)) throw ofMember(parsed.failure, field)
  const inTail = {
    rootId,
    ...(member === undefined
      ? {}
      : { member: { of: member.of, at: member.at, ...(rest.length > 0 ? { more: true as const } : {}) } }),
    ...compact({ group, groupIndex }),
  }
  // The links after it were checked with the whole.
  const after = rest.length === 0 ? parsed.success : { ...parsed.success, chain: rest }
  const tail = place(after, link.id, given, inTail, depth + 1)
  const [first, ...others] = head
  const [body, ...later] = tail
  if (first === undefined || body === undefined) throw new Error("a task contains itself")
  return [
    { ...first, placement: { ...(first.placement ?? placement), fanOut } },
    {
      ...body,
      promised,
      path: field,
      placement: { rootId, ...body.placement, chord },
      members: members.map((each) => [id, ...before.map((link) => link.id), each.id]),
    },
    ...others,
    ...later,
  ]
}

const chordOf = (chord: typeof ChordField.Type): Exclude<typeof ChordField.Type, ReadonlyArray<unknown>> =>
  "tasks" in chord ? chord : { tasks: chord }

/** The error of a member, with its place in the submission. */
export const ofMember = (error: CallboardError, path: string): CallboardError => {
  const { field } = error.details
  const whole = field === undefined ? path : `${path}.${field}`
  return new CallboardError(error.code, `${path}: ${error.message}`, { ...error.details, field: whole })
}
