/** Base64 as RFC 4648 has it. */

/** Bytes as base64, with padding. */
export const encodeBase64 = (bytes: Uint8Array): string => bytes.toBase64()

/** Bytes of base64 text; blanks and line ends are passed over. Throws on text that is not base64. */
export const decodeBase64 = (text: string): Uint8Array => Uint8Array.fromBase64(text)
