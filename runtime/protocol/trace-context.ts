/**
 * W3C trace context: two headers that carry a trace to another process. `traceparent` names the span, `tracestate` holds
 * data of tracing systems. A malformed header counts as absent; a task is never refused for it.
 */

export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string
}

/** The fields of a `traceparent`. */
export interface Traceparent {
  readonly traceId: string
  readonly spanId: string
  /** 8 bits; the lowest one says whether the trace is sampled. */
  readonly flags: number
}

/** Versions after 00 may add fields after the flags; ff is no version. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/

/** `undefined` where the text is no `traceparent`. */
export const parseTraceparent = (text: string | null | undefined): Traceparent | undefined => {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(text ?? "") ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined
  return { traceId, spanId, flags: Number.parseInt(flags, 16) }
}

/** Length of a `tracestate` that every system must pass on, in characters. */
const MAX_STATE = 512
const MAX_MEMBERS = 32
/** Members longer than this are dropped first where not all can be kept. */
const LONG_MEMBER = 128
/** Longest text that is parsed, in characters. */
const MAX_INPUT = 16 * 1024

/** `key=value`: a simple key, or `tenant@system`; a value without comma, equals sign, or space at its end. */
const MEMBER =
  /^([a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})=([\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e])$/

/**
 * The part of a `tracestate` to pass on, as the recommendation says. `null` where a member is malformed, or where there are
 * more than 32. Of a key that comes twice the first is kept. Beyond 512 characters the members longer than 128 are dropped,
 * then the last ones.
 */
const parseTracestate = (text: unknown): string | null => {
  if (typeof text !== "string" || text.length > MAX_INPUT) return null
  const members = new Map<string, string>()
  let count = 0
  for (const part of text.split(",")) {
    // The lookbehind keeps the time linear where there are many blanks.
    const member = part.replace(/^[ \t]+|(?<![ \t])[ \t]+$/g, "")
    if (member === "") continue
    const [, key] = MEMBER.exec(member) ?? []
    if (key === undefined || ++count > MAX_MEMBERS) return null
    if (!members.has(key)) members.set(key, member)
  }
  return fitting([...members.values()])
}

const fitting = (members: ReadonlyArray<string>): string | null => {
  const kept = [...members]
  const isTooLong = () => kept.join(",").length > MAX_STATE
  for (let at = kept.length - 1; at >= 0 && isTooLong(); at--)
    if ((kept[at]?.length ?? 0) > LONG_MEMBER) kept.splice(at, 1)
  while (isTooLong()) kept.pop()
  return kept.length === 0 ? null : kept.join(",")
}

/**
 * The `tracestate` to pass on beside a `traceparent`; `null` where there is none, or where the `traceparent` is
 * malformed.
 */
export const tracestateBeside = (traceparent: string | null | undefined, tracestate: unknown): string | null =>
  tracestate === undefined || tracestate === null || parseTraceparent(traceparent) === undefined
    ? null
    : parseTracestate(tracestate)

/** The headers as a trace context; `undefined` where there is no trace. */
export const traceContextOf = (headers: {
  readonly traceparent: string | null
  readonly tracestate: string | null
}): TraceContext | undefined => {
  const { traceparent, tracestate } = headers
  if (traceparent === null) return undefined
  return tracestate === null ? { traceparent } : { traceparent, tracestate }
}
