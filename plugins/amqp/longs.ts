/**
 * Integers of 64 bits in the headers of messages. Celery's library gives them the type `L`, where the AMQP library knows `l` alone:
 * it would give up the connection, and receive the same message on the next one. Both are signed and have the same length.
 */

/** Type of a frame with the properties of a message; lengths of what comes before the payload and before the flags in it. */
const HEADER_FRAME = 2
const FRAME_START = 7
const PAYLOAD_START = 12

/** Properties that a frame has by its flags: two texts, and the table of the headers. */
const [CONTENT_TYPE, CONTENT_ENCODING, HEADERS] = [0x8000, 0x4000, 0x2000]

const LETTER = { long: 0x4c, known: 0x6c, table: 0x46, list: 0x41 }

/** Bytes of a value by its letter. Texts and bytes have their length before them. */
const LENGTHS = new Map(
  Object.entries({ t: 1, b: 1, B: 1, s: 2, u: 2, I: 4, i: 4, l: 8, L: 8, f: 4, d: 8, D: 5, T: 8, V: 0 }),
)

/** Changes the type of these integers in the first frame of these bytes, if that is whole and holds headers. */
export const readLongs = (bytes: Buffer): void => {
  if (bytes.length < FRAME_START || bytes[0] !== HEADER_FRAME) return
  const end = FRAME_START + bytes.readUInt32BE(3)
  if (bytes.length < end) return
  let at = FRAME_START + PAYLOAD_START
  const flags = bytes.readUInt16BE(at)
  at += 2
  for (const flag of [CONTENT_TYPE, CONTENT_ENCODING]) if (flags & flag) at += 1 + bytes.readUInt8(at)
  if (flags & HEADERS) changeAll(bytes, at, true)
}

/** Changes the values of a table, or of a list, which has no names. Returns where it ends. */
const changeAll = (bytes: Buffer, start: number, named: boolean): number => {
  let at = start + 4
  const end = at + bytes.readUInt32BE(start)
  while (at < end) {
    if (named) at += 1 + bytes.readUInt8(at)
    const letter = bytes.readUInt8(at)
    if (letter === LETTER.long) bytes[at] = LETTER.known
    const length = LENGTHS.get(String.fromCharCode(letter))
    at += 1
    if (letter === LETTER.table || letter === LETTER.list) at = changeAll(bytes, at, letter === LETTER.table)
    else at += length ?? 4 + bytes.readUInt32BE(at)
  }
  return end
}
