/**
 * Signs of English that reads as if it were translated. A sentence with a sign is not always wrong, so a small share is
 * allowed. CONTRIBUTING.md has the words to use instead.
 */

import { textsOf } from "./tools/imports.ts"

const after = String.raw`(?<!\b(?:place|page|point|table|line|file|folder|says?|shows?|knows?|sees?|from|of)\s)`
const question = String.raw`(?<!\b(?:says?|shows?|knows?|sees?|asks?|describes?|explains?|reports?|checks?|decides?|of|about)\s)`

const signs: ReadonlyArray<readonly [sign: string, pattern: RegExp]> = [
  [
    "where, for if or when",
    new RegExp(
      String.raw`${after}\bwhere (?:an?|all|both|each|every|its?|jobs?|many|no|nobody|none|nothing|one|queues?|records?|several|some|such|tasks?|that|the|their|there|these|they|this|those|two|workers?|you)\b`,
      "i",
    ),
  ],
  ["any more, for no longer", /\bany more\b/i],
  ["of its own, by itself", /\bof (?:its|their|your|our|his|my) own\b|\bby (?:itself|themselves)\b/i],
  [
    "a clause with what, for a noun",
    new RegExp(
      String.raw`${question}\bwhat (?:all|an?|another|are|belongs|both|came|can|comes|does|each|ends|fails|follows|goes|had|happened|has|have|is|its?|jobs?|keeps|may|must|no|one|others?|passes|runs|should|still|such|takes|tasks?|that|the|their|they|this|those|waits?|was|were|will|workers?|would|you)\b(?![^.]*\?)`,
      "i",
    ),
  ],
  [
    "what it was given, what came of it",
    /\bwhat (?:becomes?|became|comes?|came) of\b|\b(?:it|one|that|they|which) (?:is|are|was|were) given\b/i,
  ],
  ["whoever, somebody, or who as a subject", /\b(?:whoever|somebody)\b|(?:^|[:;] )Who (?![^.]*\?)/],
  ["tell, of a program", /\b(?:tells?|told|telling)\b/i],
  [
    "none or no, as a predicate",
    /(?<!\bthere )\b(?:is|are|was|were|be) (?:none\b|no (?!longer\b|more\b|less\b)\w+)|\b(?:has|have|had) none\b|\bof none\b/i,
  ],
  ["is to be done", /\b(?:is|are|was|were) to (?:be|come|do|end|go|have|hold|run|start|stop|wait|undo)\b/i],
  [
    "of, before the subject",
    /(?:^|[:;] )Of (?:all|an?|each|its|jobs?|long|several|such|tasks?|the|their|these|those|what|which)\b/,
  ],
  [
    "also, before a phrase",
    /\balso (?:after|an?|as|for|if|in|its?|of|on|one|over|that|those|to|when|where|while|with)\b/i,
  ],
  [
    "so, for that",
    /\bso (?:few|high|large|long|many|much|often)\b(?! (?:as|that)\b)|\b(?:ends?|fails?|held|stays|written) so\b/i,
  ],
  ["lie or stand, for be", /\b(?:lies?|lay|lying|stands?|stood)\b(?! (?:by|still)\b)/i],
  ["for ever", /\bfor ever\b/i],
  ["is there, for exists", /(?<!\bas \w+ )\b(?:are|is|was|were) there\b(?! (?:any|an?|no|so)\b)/i],
  ["is over, for ends", /\b(?:are|is|was|were) over\b/i],
  ["is not there, for does not exist", /\b(?:are|is|was|were) not there\b/i],
  ["is by, without a verb", /\b(?:are|is|was|were) by (?:an?|its|that|the|their)\b/i],
  ["since when, meanwhile", /\bsince when\b(?![^.]*\?)|(?<=\w )meanwhile\b/i],
  ["least or most, for minimum or maximum", /(?:^|: )(?:Fewest|Least|Most (?!frequent|recent)\w+s) (?!of\b)/],
  ["a number that is allowed", /, (?:and )?\S+ (?:is|are) allowed\b/],
  ["another than, of use, if nothing is said", /\banother than\b|\bof use\b|\bif nothing is said\b/i],
  ["to be done, without must", /, to be \w+ed\b/i],
  ["go on, for continue", /\b(?:go|goes|going|gone|went) on\b/i],
  ["come to an end, come into being", /\bcom(?:es?|ing) (?:to (?:an|exactly one|its|one) end|into being)\b/i],
  [
    "a figure of speech, or an idiom of another language",
    /\b(?:says? so|die[sd]? of|at a glance|in (?:its|their) hands|turned round|belongs? into|be had|in vain|for good|all the same|without a word|(?:takes?|took|brings?|brought) along)\b/i,
  ],
]

export interface OddSentence {
  readonly sentence: string
  readonly signs: ReadonlyArray<string>
}

/** The sentences of a page: prose, headings and cells of tables, of four words or more besides code. */
export const sentencesOf = (markdown: string): ReadonlyArray<string> =>
  markdown
    .replaceAll(/^```.*?^```$/gms, "")
    .replaceAll(/`[^`]*`/g, "`code`")
    .replaceAll(/\]\([^)]*\)/g, "]")
    // A paragraph, a heading, an item of a list or a cell of a table.
    .split(/\n\s*\n|\n(?=\s*(?:[-*#]|\d+\.) )|\|/)
    .flatMap((block) => block.replaceAll(/\s+/g, " ").split(/(?<=[.!?:])\s+(?=[A-Z`"([])/))
    .map((sentence) => sentence.replace(/^[\s#*-]+/, "").trim())
    .filter((sentence) => (sentence.replaceAll("`code`", "").match(/\p{L}+/gu)?.length ?? 0) >= 4)

/** A statement in another language: SQL, Lua, CSS or HTML. */
const STATEMENT =
  /\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|WHERE|AND|UNION|PRAGMA)\b|\bcall\('|\blocal \w|var\(--|<\w+[ >]/

/** The sentences in the texts of a source, and in the elements of a page. */
export const messagesOf = (path: string, source: string): ReadonlyArray<string> => {
  const elements = path.endsWith(".tsx") ? [...source.matchAll(/>([^<>{}=;()]+)</g)].map(([, text = ""]) => text) : []
  return [...textsOf(source), ...elements]
    .filter((text) => !STATEMENT.test(text))
    .map((text) =>
      text
        .replaceAll(/\\n/g, " ")
        .replaceAll(/\$\{[^}]*(?:\}|$)/g, "`code`")
        .replace(/^[^{}`]*\}/, "`code`"),
    )
    .flatMap((text) => sentencesOf(text.replaceAll("\\`", "`")))
}

/** The sentences that have a sign, with the names of their signs. */
export const oddSentences = (sentences: ReadonlyArray<string>): ReadonlyArray<OddSentence> =>
  sentences.flatMap((sentence) => {
    const found = signs.filter(([, pattern]) => pattern.test(sentence)).map(([sign]) => sign)
    return found.length === 0 ? [] : [{ sentence, signs: found }]
  })
