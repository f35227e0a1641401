/** The known word that a misspelt one was meant to be. */

/** Edit distance between two words: insert, remove, replace, or swap two letters side by side. */
const editDistance = (a: string, b: string): number => {
  let before: ReadonlyArray<number> = []
  let last = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let edits = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        edits = Math.min(edits, (before[j - 2] ?? 0) + 1)
      row.push(edits)
    }
    before = last
    last = row
  }
  return last[b.length] ?? 0
}

/** Shortest beginning of a known word that suggests it. */
const MIN_BEGINNING = 3

/**
 * The nearest known word, if it is near: at most one edit for every three of its letters. Otherwise the first one that the
 * word is the beginning of. Ignores case.
 */
export const suggest = (word: string, known: Iterable<string>): string | undefined => {
  let best: { readonly name: string; readonly edits: number } | undefined
  let longer: string | undefined
  for (const name of known) {
    if (word.length >= MIN_BEGINNING && name.toLowerCase().startsWith(word.toLowerCase())) longer ??= name
    const edits = editDistance(word.toLowerCase(), name.toLowerCase())
    if (edits <= Math.max(1, Math.floor(name.length / 3)) && edits < (best?.edits ?? Number.POSITIVE_INFINITY))
      best = { name, edits }
  }
  return best?.name ?? longer
}

/** ` (did you mean x?)` to append to a message; empty where no known word is near. */
export const didYouMean = (word: string, known: Iterable<string>): string => {
  const near = suggest(word, known)
  return near === undefined ? "" : ` (did you mean ${near}?)`
}
