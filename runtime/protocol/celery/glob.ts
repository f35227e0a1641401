/**
 * Globs, as `fnmatch` of Python has them: `*`, `?`, `[abc]`, `[a-z]` and `[!abc]`. No regular expression is made of a pattern,
 * since others send it: the time that matching takes grows with the product of both lengths at most.
 */

/** A token of a glob: any run of characters, one of some characters, or a character itself. */
type Token = "*" | ((character: string) => boolean)

/** Whether the whole text matches the glob. */
export const matchesGlob = (text: string, glob: string): boolean => {
  const characters = Array.from(text)
  const tokens = tokensOf(Array.from(glob))
  let at = 0
  let token = 0
  // Only the last star has to be tried again: an earlier one that took more would leave less for what follows.
  let star: { readonly token: number; at: number } | undefined
  while (at < characters.length) {
    const next = tokens[token]
    const character = characters[at] ?? ""
    if (next === "*") star = { token: ++token, at }
    else if (next?.(character)) {
      token++
      at++
    } else if (star === undefined) return false
    else {
      token = star.token
      at = ++star.at
    }
  }
  return tokens.slice(token).every((rest) => rest === "*")
}

const tokensOf = (glob: ReadonlyArray<string>): ReadonlyArray<Token> => {
  const tokens: Array<Token> = []
  for (let at = 0; at < glob.length; at++) {
    const character = glob[at] ?? ""
    const end = character === "[" ? endOfSet(glob, at) : -1
    if (character === "*") tokens.push("*")
    else if (character === "?") tokens.push(() => true)
    else if (end < 0) tokens.push((other) => other === character)
    else {
      tokens.push(oneOf(glob.slice(at + 1, end)))
      at = end
    }
  }
  return tokens
}

/** Where the set ends that begins here; -1 where it does not end, so that its bracket stands for itself. */
const endOfSet = (glob: ReadonlyArray<string>, begin: number): number => {
  const first = begin + (glob[begin + 1] === "!" ? 2 : 1)
  // A bracket that comes first belongs to the set.
  return glob.indexOf("]", first + 1)
}

const oneOf = (set: ReadonlyArray<string>): ((character: string) => boolean) => {
  const isNegated = set[0] === "!"
  const ranges: Array<readonly [from: number, to: number]> = []
  for (let at = isNegated ? 1 : 0; at < set.length; at++) {
    const from = codeOf(set[at])
    const isRange = set[at + 1] === "-" && at + 2 < set.length
    ranges.push([from, isRange ? codeOf(set[at + 2]) : from])
    if (isRange) at += 2
  }
  return (character) => {
    const code = codeOf(character)
    return ranges.some(([from, to]) => from <= code && code <= to) !== isNegated
  }
}

const codeOf = (character = ""): number => character.codePointAt(0) ?? 0
