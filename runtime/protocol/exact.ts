/** Values that JSON lacks and Python sends, as JavaScript has them; `value.ts` reads them. */

/** 0001-01-01T00:00:00Z, the first moment that Python knows. */
export const EARLIEST_MS = -62_135_596_800_000

/** 9999-12-31T23:59:59.999Z, the last one. */
export const LATEST_MS = 253_402_300_799_999

/**
 * A `Date` that keeps the text it was parsed from: {@link text} has the microseconds and the zone, or no zone where Python's
 * datetime was naive (it then counts as UTC). A setter of `Date` discards that text.
 */
export class ExactDate extends Date {
  readonly #text: string
  readonly #ms: number

  /** `text` must be what {@link exactDate} accepted, and `ms` its milliseconds. */
  constructor(ms: number, text: string) {
    super(ms)
    this.#ms = ms
    this.#text = text
  }

  /** ISO 8601, with `T`, as it was written. */
  get text(): string {
    return this.getTime() === this.#ms ? this.#text : millisText(this)
  }
}

/** The text of any date; empty when it is invalid or outside the years 1–9999, which no Python could read. */
export const dateText = (date: Date): string => (date instanceof ExactDate ? date.text : millisText(date))

const millisText = (date: Date): string => {
  const ms = date.getTime()
  if (!(ms >= EARLIEST_MS && ms <= LATEST_MS)) return ""
  const text = date.toISOString()
  return ms % 1_000 === 0 ? `${text.slice(0, 19)}+00:00` : `${text.slice(0, 23)}000+00:00`
}

export type ExactType = "date" | "time" | "decimal" | "uuid"

/**
 * A date without a time, a time without a date, a decimal number or a UUID, as text: `2031-09-06`, `20:57:24.052237`,
 * `10.50`, `815ea983-9f68-4659-a8ca-24f41288d0d5`. Turns into that text by itself: in a template, in `String(…)`, in JSON.
 */
export class Exact {
  readonly type: ExactType
  readonly text: string

  constructor(type: ExactType, text: string) {
    this.type = type
    this.text = text
  }

  toString(): string {
    return this.text
  }

  toJSON(): string {
    return this.text
  }
}

/** Bytes as base64, with padding. */
export const encodeBase64 = (bytes: Uint8Array): string =>
  // Node before 25 has no `toBase64`, and its `Buffer` would be copied into every page by bundlers.
  hasToBase64 ? bytes.toBase64() : btoa(latin1Of(bytes))

/** A function takes a limited number of arguments. */
const SLICE = 8192

const latin1Of = (bytes: Uint8Array): string => {
  let text = ""
  for (let at = 0; at < bytes.length; at += SLICE) text += String.fromCharCode(...bytes.subarray(at, at + SLICE))
  return text
}

/** Decodes base64; blanks and line ends are skipped. Throws where the text is not base64. */
export const decodeBase64 = (text: string): Uint8Array =>
  // Node before 25 has no `Uint8Array.fromBase64`.
  hasFromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))

const hasFromBase64 = "fromBase64" in Uint8Array
const hasToBase64 = "toBase64" in Uint8Array.prototype
