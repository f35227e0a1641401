/** Cuts texts between characters, never between the two halves of one: half a character is refused by Python and by jsonb. */

/** The first `max` UTF-16 units of a text; one fewer where the last one would be the first half of a character. */
export const beginning = (text: string, max: number): string => {
  if (text.length <= max) return text
  const last = text.charCodeAt(max - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max)
}

/** A text of at most `max` UTF-16 units, which ends in `…` where it was cut. */
export const cut = (text: string, max: number): string =>
  text.length <= max ? text : `${beginning(text, Math.max(0, max - 1))}…`
