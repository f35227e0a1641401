/**
 * Makes text of jobs safe to show. Characters that are invisible, that control a terminal, or that change the direction
 * of writing are written as escapes, so that no name can look like another one.
 */

/** Line breaks and tabs are kept: tracebacks need them, and elsewhere HTML shows them as a space. */
const HIDDEN =
  /(?![\n\t])(?:\p{Cc}|\p{Cf}|\p{Cs}|\p{Zl}|\p{Zp}|\u034f|[\u115f\u1160]|[\u17b4\u17b5]|[\u180b-\u180f]|[\u2800\u3164\uffa0]|[\ufe00-\ufe0f]|[\u{e0100}-\u{e01ef}])/gu

const written = (character: string): string => {
  const code = (character.codePointAt(0) ?? 0).toString(16)
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`
}

export const seen = (text: string): string => text.replace(HIDDEN, written)

/**
 * The last characters of an id, as lists show them: ids that were created one after the other begin with the same ones.
 */
export const idEnd = (id: string): string => id.slice(-8)
