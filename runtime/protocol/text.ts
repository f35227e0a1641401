/**
 * Texts as bytes of UTF-8, and texts cut between characters, never between the two halves of one: half a character is
 * refused by Python and by jsonb.
 */

export const encoder = new TextEncoder()

// Decoders are marked as pure, so that a bundle holds only those that it uses.

/** Reads what is not UTF-8 as U+FFFD, and drops a byte order mark. */
export const decoder = /* @__PURE__ */ new TextDecoder()

/** As {@link decoder}, and keeps a byte order mark. */
export const bomDecoder = /* @__PURE__ */ new TextDecoder("utf-8", { ignoreBOM: true })

/** Throws for what is not UTF-8, and drops a byte order mark. */
export const strictDecoder = /* @__PURE__ */ new TextDecoder("utf-8", { fatal: true })

/** Throws for what is not UTF-8, and keeps a byte order mark: the text has all bytes. */
export const exactDecoder = /* @__PURE__ */ new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** Bytes of a text in UTF-8. */
export const byteLength = (text: string): number => encoder.encode(text).length

// biome-ignore lint/suspicious/noControlCharactersInRegex: texts with these characters are refused
const CONTROL = /[\u0000-\u001f\u007f]/

/** Whether a text has control characters, or half a character. */
export const isUnfitForName = (text: string): boolean => CONTROL.test(text) || !text.isWellFormed()

/** The first `max` UTF-16 units of a text; one fewer where the last one would be the first half of a character. */
export const beginning = (text: string, max: number): string => {
  if (text.length <= max) return text
  const last = text.charCodeAt(max - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max)
}

/** A text of at most `max` UTF-16 units, which ends in `…` where it was cut. */
export const cut = (text: string, max: number): string =>
  text.length <= max ? text : `${beginning(text, Math.max(0, max - 1))}…`
