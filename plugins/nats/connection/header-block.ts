/**
 * Header blocks as bytes. The client's own reader throws on a block that it would not write itself, and any program may
 * have published one: here such a block is refused with a reason, or read as far as that goes.
 */
import type { Msg } from "nats"
import { byteLength, decoder, exactDecoder } from "../../../runtime/protocol/text.ts"

const VERSION = "NATS/1.0"
const SPACE = 0x20
const RETURN = 0x0d

const bytesIn = (text: string): number => (text === "" ? 0 : byteLength(text))

/** The client's messages know their size: that of subject, reply subject, headers and data together. Its type does not show that. */
const isSized = (message: Msg): message is Msg & { size(): number } =>
  "size" in message && typeof message.size === "function"

const NONE = new Uint8Array(0)

/** The header block of a message, whose bytes lie before the data in the client's buffer; empty where it has none. */
export const blockOf = (message: Msg): Uint8Array => {
  if (!isSized(message)) return NONE
  const { data, subject, reply = "" } = message
  const length = Math.min(message.size() - bytesIn(subject) - bytesIn(reply) - data.length, data.byteOffset)
  return length > 0 ? new Uint8Array(data.buffer, data.byteOffset - length, length) : NONE
}

/**
 * The status code of a message of the server and what it says about it, such as `404 No Messages`; empty for a message without
 * one.
 */
export const statusLineOf = (message: Msg): string => {
  const block = blockOf(message)
  if (block[VERSION.length] !== SPACE) return ""
  const end = block.indexOf(RETURN)
  return decoder.decode(block.subarray(VERSION.length + 1, end < 0 ? block.length : end))
}

/** The code in a status line; 0 where there is none. */
export const codeIn = (line: string): number => Number.parseInt(line, 10) || 0

/** The status code of a message of the server, such as 404; 0 for a message without one. */
export const statusOf = (message: Msg): number => codeIn(statusLineOf(message))

/**
 * Reads headers of a block by their names, as far as they can be read; empty where there is none. Of several with one name
 * the last counts: the server puts its own behind those of the message.
 */
export const headersOf = (block: Uint8Array): ((name: string) => string) => {
  const text = decoder.decode(block)
  return (name) => {
    const line = `\r\n${name}:`
    const at = text.lastIndexOf(line)
    if (at < 0) return ""
    const from = at + line.length
    const end = text.indexOf("\r\n", from)
    return text.slice(from, end < 0 ? text.length : end).trim()
  }
}

const NAME = /^[!-9;-~]+$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
const CONTROL = /[\u0000-\u0008\u000a-\u001f\u007f]/

/** All headers of a block, each with its values in order; or why the block is none. */
export const readHeaders = (block: Uint8Array): ReadonlyMap<string, ReadonlyArray<string>> | string => {
  const headers = new Map<string, Array<string>>()
  if (block.length === 0) return headers
  let text: string
  try {
    text = exactDecoder.decode(block)
  } catch {
    return "its headers are not UTF-8"
  }
  const [version, ...lines] = text.split("\r\n")
  if (version !== VERSION || lines.pop() !== "" || lines.pop() !== "") return "its headers are truncated"
  for (const line of lines) {
    const colon = line.indexOf(":")
    const name = line.slice(0, Math.max(colon, 0))
    if (!NAME.test(name)) return `a header has no name: ${JSON.stringify(line.slice(0, 40))}`
    if (CONTROL.test(line)) return `the header ${JSON.stringify(name)} contains control characters`
    const values = headers.get(name)
    if (values === undefined) headers.set(name, [line.slice(colon + 1).trim()])
    else values.push(line.slice(colon + 1).trim())
  }
  return headers
}
