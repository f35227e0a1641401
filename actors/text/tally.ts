/** Counts words and sentences as the rules of a language see them (Unicode's segmentation, no dictionary needed). */

/** Number of different words that are counted exactly. With more, rare words are dropped, so that memory stays bounded. */
const DIFFERENT = 100_000

/** Words of more letters than this are long, says LIX. */
const LONG = 6

export class Tally {
  words = 0
  longWords = 0
  sentences = 0
  characters = 0
  readonly #frequency = new Map<string, number>()
  readonly #language: string
  readonly #wordSegmenter: Intl.Segmenter
  readonly #sentenceSegmenter: Intl.Segmenter

  constructor(language: string) {
    this.#language = language
    this.#wordSegmenter = new Intl.Segmenter(language, { granularity: "word" })
    this.#sentenceSegmenter = new Intl.Segmenter(language, { granularity: "sentence" })
  }

  add(paragraph: string): void {
    this.characters += paragraph.length
    for (const { segment } of this.#sentenceSegmenter.segment(paragraph)) {
      if (this.#addSentence(segment)) this.sentences++
    }
  }

  /** Adds the counts of another tally of the same language. */
  merge(other: Tally): void {
    this.words += other.words
    this.longWords += other.longWords
    this.sentences += other.sentences
    this.characters += other.characters
    for (const [word, times] of other.#frequency) this.#count(word, times)
  }

  /** Whether there was a word in it: a row of dashes is no sentence. */
  #addSentence(sentence: string): boolean {
    const before = this.words
    for (const { segment, isWordLike } of this.#wordSegmenter.segment(sentence)) {
      if (!isWordLike) continue
      this.words++
      if (segment.length > LONG) this.longWords++
      this.#count(segment.toLocaleLowerCase(this.#language), 1)
    }
    return this.words > before
  }

  #count(word: string, times: number): void {
    this.#frequency.set(word, (this.#frequency.get(word) ?? 0) + times)
    if (this.#frequency.size > DIFFERENT) this.#forgetRare()
  }

  #forgetRare(): void {
    for (let rare = 1; this.#frequency.size > DIFFERENT / 2; rare++) {
      for (const [word, count] of this.#frequency) if (count <= rare) this.#frequency.delete(word)
    }
  }

  summary() {
    const { words, sentences, characters } = this
    return { words, sentences, characters, ...lix(this) }
  }

  /** The most frequent words, ties in alphabetical order. */
  top(count: number): ReadonlyArray<{ readonly word: string; readonly count: number }> {
    return [...this.#frequency]
      .map(([word, times]) => ({ word, count: times }))
      .sort((a, b) => b.count - a.count || (a.word < b.word ? -1 : 1))
      .slice(0, count)
  }
}

const LEVELS = [
  [30, "very easy"],
  [40, "easy"],
  [50, "medium"],
  [60, "hard"],
] as const

/** Björnsson's LIX: words per sentence, plus the share of long words in percent. */
export const lix = ({ words, longWords, sentences }: Pick<Tally, "words" | "longWords" | "sentences">) => {
  const value = words === 0 ? 0 : words / Math.max(1, sentences) + (longWords * 100) / words
  return { lix: Math.round(value * 10) / 10, level: LEVELS.find(([below]) => value < below)?.[1] ?? "very hard" }
}
