/**
 * Counts words and sentences as the rules of a language see them (Unicode's segmentation, no dictionary needed), and reads a
 * text file paragraph by paragraph, so that only a part of a large file is in memory.
 */
import { createReadStream } from "node:fs"

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

/** The file is not UTF-8 text. */
export class NotText extends Error {
  readonly _tag = "NotText"
  override readonly name = "NotText"
}

interface Paragraph {
  readonly text: string
  /** Bytes that were read since the one before. */
  readonly bytes: number
}

/** A paragraph without an end, as in a file of one line, is cut near this length, between words if there are any. */
const LONGEST = 64 * 1024

const BLANK_LINE = /\r?\n[ \t]*\r?\n/

/**
 * The paragraphs of a file, in order; any white space within one is a single space. Stops with the signal's reason when it fires. Fails with
 * {@link NotText}.
 */
export const readParagraphs = async function* (location: string, signal: AbortSignal): AsyncGenerator<Paragraph> {
  const decoder = new TextDecoder("utf-8", { fatal: true })
  const decode = (chunk?: Uint8Array): string => {
    try {
      return chunk === undefined ? decoder.decode() : decoder.decode(chunk, { stream: true })
    } catch (cause) {
      throw new NotText("is not UTF-8", { cause })
    }
  }
  let rest = ""
  let bytes = 0
  for await (const chunk of createReadStream(location, { highWaterMark: LONGEST })) {
    signal.throwIfAborted()
    const piece = decode(chunk)
    if (piece.includes("\0")) throw new NotText("is binary")
    rest += piece
    bytes += chunk.length
    const parts = rest.split(BLANK_LINE)
    rest = parts.pop() ?? ""
    while (rest.length > LONGEST) {
      const at = cut(rest)
      parts.push(rest.slice(0, at))
      rest = rest.slice(at)
    }
    for (const part of parts) {
      yield { text: joined(part), bytes }
      bytes = 0
    }
  }
  yield { text: joined(rest + decode()), bytes }
}

const joined = (text: string): string => text.replace(/\s+/g, " ")

/** Where to cut a long text: after its last space within {@link LONGEST}, and never within a character. */
const cut = (text: string): number => {
  const space = text.lastIndexOf(" ", LONGEST) + 1
  if (space > 0) return space
  const before = text.charCodeAt(LONGEST - 1)
  return before >= 0xd800 && before <= 0xdbff ? LONGEST - 1 : LONGEST
}
