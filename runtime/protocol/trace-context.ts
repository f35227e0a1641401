/**
 * W3C trace context, the two lines of text in which a trace crosses processes: `traceparent` says where it stands, and
 * `tracestate` what tracing systems say beside that. Whatever is malformed is no trace, and never a reason to refuse a task.
 */

export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string
}

/** What a `traceparent` says. */
export interface Traceparent {
  readonly traceId: string
  readonly spanId: string
  /** 8 bits; the lowest: whether the trace is sampled. */
  readonly flags: number
}

/** Versions after 00 may say more behind the flags; ff is none. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/

/** `undefined` for text that is none. */
export const parseTraceparent = (text: string | null | undefined): Traceparent | undefined => {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(text ?? "") ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined
  return { traceId, spanId, flags: Number.parseInt(flags, 16) }
}

/** As much of a `tracestate` as everybody must carry along, in characters. */
const MOST_STATE = 512
const MOST_MEMBERS = 32
/** Members that are longer go first where not all can be kept. */
const LONG_MEMBER = 128
/** What is not even looked at. */
const MOST_INPUT = 16 * 1024

/** `key=value`: a simple key, or `tenant@system`; a value without comma, equals sign, or space at its end. */
const MEMBER =
  /^([a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})=([\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e])$/

/**
 * What is kept of a `tracestate`, as the recommendation says: none of it where a member is malformed or where there are
 * more than 32; of a key that comes twice the first; and of more than 512 characters not the members longer than 128,
 * then not the last ones. `null`: nothing.
 */
const parseTracestate = (text: unknown): string | null => {
  if (typeof text !== "string" || text.length > MOST_INPUT) return null
  const members = new Map<string, string>()
  let count = 0
  for (const part of text.split(",")) {
    // Looking behind spares a look from each of many blanks to the end.
    const member = part.replace(/^[ \t]+|(?<![ \t])[ \t]+$/g, "")
    if (member === "") continue
    const [, key] = MEMBER.exec(member) ?? []
    if (key === undefined || ++count > MOST_MEMBERS) return null
    if (!members.has(key)) members.set(key, member)
  }
  return fitting([...members.values()])
}

const fitting = (members: ReadonlyArray<string>): string | null => {
  const kept = [...members]
  const isTooLong = () => kept.join(",").length > MOST_STATE
  for (let at = kept.length - 1; at >= 0 && isTooLong(); at--)
    if ((kept[at]?.length ?? 0) > LONG_MEMBER) kept.splice(at, 1)
  while (isTooLong()) kept.pop()
  return kept.length === 0 ? null : kept.join(",")
}

/** The `tracestate` that stands beside a `traceparent`; nothing beside one that is none. `null`: nothing. */
export const tracestateBeside = (traceparent: string | null | undefined, tracestate: unknown): string | null =>
  tracestate === undefined || tracestate === null || parseTraceparent(traceparent) === undefined
    ? null
    : parseTracestate(tracestate)

/** Both as headers have them; `undefined`: no trace. */
export const traceContextOf = (headers: {
  readonly traceparent: string | null
  readonly tracestate: string | null
}): TraceContext | undefined => {
  const { traceparent, tracestate } = headers
  if (traceparent === null) return undefined
  return tracestate === null ? { traceparent } : { traceparent, tracestate }
}
