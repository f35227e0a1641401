/**
 * Text of jobs as it is shown. What cannot be seen is written out: characters that control, that change the direction of
 * writing, or that have no width, so that no name can pass for another.
 */

/** Line breaks and tabs stay: they mean something in tracebacks, and between tags they are a space. */
const HIDDEN =
  /(?![\n\t])(?:\p{Cc}|\p{Cf}|\p{Cs}|\p{Zl}|\p{Zp}|\u034f|[\u115f\u1160]|[\u17b4\u17b5]|[\u180b-\u180f]|[\u2800\u3164\uffa0]|[\ufe00-\ufe0f]|[\u{e0100}-\u{e01ef}])/gu

const written = (character: string): string => {
  const code = (character.codePointAt(0) ?? 0).toString(16)
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`
}

export const seen = (text: string): string => text.replace(HIDDEN, written)

/** The end of an id, as it is shown in lists: ids that were made one after the other begin alike. */
export const idEnd = (id: string): string => id.slice(-8)
