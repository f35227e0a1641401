/** Base64 (RFC 4648). */

/** Bytes as base64, with padding. */
export const encodeBase64 = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64")

/** Decodes base64; blanks and line ends are skipped. Throws where the text is not base64. */
export const decodeBase64 = (text: string): Uint8Array =>
  // Node before 25 has no `Uint8Array.fromBase64`.
  hasFromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))

const hasFromBase64 = "fromBase64" in Uint8Array
