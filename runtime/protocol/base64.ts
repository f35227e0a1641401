/** Base64 as RFC 4648 has it. */

/** Bytes as base64, with padding. */
export const encodeBase64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64")

/** Bytes of base64 text; blanks and line ends are passed over. Throws on text that is not base64. */
export const decodeBase64 = (text: string): Uint8Array =>
  // Node before 25 does not know it.
  hasFromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))

const hasFromBase64 = "fromBase64" in Uint8Array
