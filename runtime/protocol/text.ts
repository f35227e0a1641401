/** Cuts texts between characters, never between the two halves of one: half a character is refused by Python and by jsonb. */

/** The first `most` UTF-16 units of a text; one fewer where the last one would be the first half of a character. */
export const beginning = (text: string, most: number): string => {
  if (text.length <= most) return text
  const last = text.charCodeAt(most - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most)
}

/** A text of at most `most` UTF-16 units, which ends in `…` where it was cut. */
export const cut = (text: string, most: number): string =>
  text.length <= most ? text : `${beginning(text, Math.max(0, most - 1))}…`
