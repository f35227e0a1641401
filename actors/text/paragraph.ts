/** Reads a text file paragraph by paragraph, so that only a part of a large file is in memory. */
import { createReadStream } from "node:fs"

/** The file is not UTF-8 text. */
export class NotText extends Error {
  readonly _tag = "NotText"
  override readonly name = "NotText"
}

export interface Paragraph {
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
