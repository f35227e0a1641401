/**
 * Reads bzip2, which no runtime has built in and Celery's clients may choose (`compression="bzip2"`). It is not written: every
 * worker that reads it reads zlib as well. Checksums are compared, and nothing is built beyond the bound.
 */

/** Bytes that are no bzip2, or were cut or changed on the way. */
const malformed = (why: string): Error => new Error(why)

/** What came out is larger than allowed. */
export class TooLarge extends Error {}

const BLOCK = 0x314159265359
const END = 0x177245385090
/** Number of symbols in a row that are written with the same table. */
const GROUP = 50
const MAX_BITS = 20

/** Reads bits, the highest of a byte first. */
class Bits {
  readonly #bytes: Uint8Array
  #at = 0
  #value = 0
  #have = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
  }

  /** At most 24 bits. */
  take(count: number): number {
    while (this.#have < count) {
      const byte = this.#bytes[this.#at++]
      if (byte === undefined) throw malformed("it ends too early")
      this.#value = ((this.#value << 8) | byte) >>> 0
      this.#have += 8
    }
    this.#have -= count
    const taken = (this.#value >>> this.#have) & ((1 << count) - 1)
    this.#value &= (1 << this.#have) - 1
    return taken
  }

  /** 48 bits, as a number that a double holds. */
  mark(): number {
    return this.take(24) * 0x100_0000 + this.take(24)
  }

  word(): number {
    return ((this.take(16) << 16) | this.take(16)) >>> 0
  }

  /** Passes over what is left of a byte. Whether nothing follows. */
  align(): boolean {
    this.#have -= this.#have % 8
    this.#value &= (1 << this.#have) - 1
    return this.#have === 0 && this.#at >= this.#bytes.length
  }
}

/** CRC-32 with the highest bit first, as bzip2 has it. */
const CRC = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index << 24
  for (let bit = 0; bit < 8; bit++) value = value < 0 ? (value << 1) ^ 0x04c11db7 : value << 1
  return value >>> 0
})

/** A canonical Huffman code, read bit by bit. */
interface Code {
  /** By length: the largest code, and what leads from a code to its place among the symbols. */
  readonly limit: Int32Array
  readonly base: Int32Array
  readonly symbols: ReadonlyArray<number>
}

const codeOf = (lengths: ReadonlyArray<number>): Code => {
  const symbols = lengths
    .map((length, symbol) => ({ length, symbol }))
    .sort((a, b) => a.length - b.length || a.symbol - b.symbol)
  const limit = new Int32Array(MAX_BITS + 1).fill(-1)
  const base = new Int32Array(MAX_BITS + 1)
  let [code, at] = [0, 0]
  for (let length = 1; length <= MAX_BITS; length++) {
    const count = lengths.filter((each) => each === length).length
    base[length] = at - code
    code += count
    at += count
    if (count > 0) limit[length] = code - 1
    code *= 2
  }
  return { limit, base, symbols: symbols.map(({ symbol }) => symbol) }
}

const symbolOf = (bits: Bits, { limit, base, symbols }: Code): number => {
  let code = 0
  for (let length = 1; length <= MAX_BITS; length++) {
    code = code * 2 + bits.take(1)
    if (code > (limit[length] ?? -1)) continue
    const symbol = symbols[code + (base[length] ?? 0)]
    if (symbol !== undefined) return symbol
  }
  throw malformed("it contains an invalid code")
}

/** The lengths of one table: each differs from the one before by steps of one. */
const lengthsOf = (bits: Bits, count: number): ReadonlyArray<number> => {
  let length = bits.take(5)
  return Array.from({ length: count }, () => {
    while (bits.take(1) === 1) length += bits.take(1) === 0 ? 1 : -1
    if (length < 1 || length > MAX_BITS) throw malformed("a code is too long")
    return length
  })
}

const takeFront = <A>(list: Array<A>, at: number): A => {
  const [found] = list.splice(at, 1)
  if (found === undefined) throw malformed("it refers to data that it does not contain")
  list.unshift(found)
  return found
}

/** The last column of a block's sorted rotations, and the row that is the block itself. */
const columnOf = (bits: Bits, capacity: number): { readonly column: Uint8Array; readonly origin: number } => {
  if (bits.take(1) === 1) throw malformed("its version is obsolete")
  const origin = bits.take(24)
  const used = bits.take(16)
  const bytes: Array<number> = []
  for (let high = 0; high < 16; high++) {
    if ((used & (0x8000 >> high)) === 0) continue
    const low = bits.take(16)
    for (let each = 0; each < 16; each++) if ((low & (0x8000 >> each)) !== 0) bytes.push(high * 16 + each)
  }
  const tables = bits.take(3)
  const choices = bits.take(15)
  if (bytes.length === 0 || tables < 2 || tables > 6 || choices === 0) throw malformed("a block has no tables")
  const order = Array.from({ length: tables }, (_, table) => table)
  const chosen = Array.from({ length: choices }, () => {
    let at = 0
    while (bits.take(1) === 1) at++
    return takeFront(order, at)
  })
  const end = bytes.length + 1
  const codes = Array.from({ length: tables }, () => codeOf(lengthsOf(bits, end + 1)))
  const column = new Uint8Array(capacity)
  let [size, run, power] = [0, 0, 1]
  for (let read = 0; ; read++) {
    const code = codes[chosen[Math.floor(read / GROUP)] ?? -1]
    if (code === undefined) throw malformed("a block has too many symbols")
    const symbol = symbolOf(bits, code)
    // The symbols 0 and 1 are digits of the number of repetitions of the first byte: they count 1 and 2 in base 2.
    if (symbol < 2) {
      run += power << symbol
      power *= 2
      if (run > capacity) throw malformed("a block is too large")
      continue
    }
    if (size + run > capacity) throw malformed("a block is too large")
    column.fill(bytes[0] ?? 0, size, size + run)
    size += run
    ;[run, power] = [0, 1]
    if (symbol === end) break
    if (size === capacity) throw malformed("a block is too large")
    column[size++] = takeFront(bytes, symbol - 1)
  }
  if (origin >= size) throw malformed("a block has no start")
  return { column: column.subarray(0, size), origin }
}

/** For each row the one whose rotation follows. */
const followers = (column: Uint8Array): Uint32Array => {
  const starts = new Uint32Array(256)
  for (const byte of column) starts[byte] = (starts[byte] ?? 0) + 1
  let sum = 0
  for (let byte = 0; byte < 256; byte++) {
    const count = starts[byte] ?? 0
    starts[byte] = sum
    sum += count
  }
  const next = new Uint32Array(column.length)
  for (const [row, byte] of column.entries()) {
    const at = starts[byte] ?? 0
    starts[byte] = at + 1
    next[at] = row
  }
  return next
}

/** Collects bytes, at most as many as allowed. */
class Output {
  readonly #max: number
  #bytes = new Uint8Array(4096)
  size = 0
  crc = 0

  constructor(max: number) {
    this.#max = max
  }

  add(byte: number, times: number): void {
    const size = this.size + times
    if (size > this.#max) throw new TooLarge(`more than ${this.#max} bytes`)
    if (size > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(size, this.#bytes.length * 2))
      larger.set(this.#bytes.subarray(0, this.size))
      this.#bytes = larger
    }
    this.#bytes.fill(byte, this.size, size)
    this.size = size
    for (let each = 0; each < times; each++) this.crc = ((this.crc << 8) ^ (CRC[(this.crc >>> 24) ^ byte] ?? 0)) >>> 0
  }

  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.size)
  }
}

const readBlock = (bits: Bits, capacity: number, output: Output): number => {
  const wanted = bits.word()
  const { column, origin } = columnOf(bits, capacity)
  const next = followers(column)
  output.crc = 0xffff_ffff
  let row = next[origin] ?? 0
  let [last, same] = [-1, 0]
  for (let read = 0; read < column.length; read++) {
    const byte = column[row] ?? 0
    row = next[row] ?? 0
    // After four equal bytes comes how often that byte follows still.
    if (same === 4) {
      output.add(last, byte)
      ;[last, same] = [-1, 0]
      continue
    }
    same = byte === last ? same + 1 : 1
    last = byte
    output.add(byte, 1)
  }
  if ((output.crc ^ 0xffff_ffff) >>> 0 !== wanted) throw malformed("a checksum does not match")
  return wanted
}

/** The bytes as they were. Throws {@link TooLarge} before more than `max` of them are built, and an Error for no bzip2. */
export const readBzip2 = (bytes: Uint8Array, max: number): Uint8Array => {
  const bits = new Bits(bytes)
  const output = new Output(max)
  // Several streams may follow one another, and are one.
  do {
    if (bits.take(24) !== 0x425a68) throw malformed("it does not begin with BZh")
    const level = bits.take(8) - 0x30
    if (level < 1 || level > 9) throw malformed("its block size is invalid")
    let whole = 0
    for (let mark = bits.mark(); mark !== END; mark = bits.mark()) {
      if (mark !== BLOCK) throw malformed("a block does not start at the expected position")
      whole = ((whole << 1) | (whole >>> 31)) ^ readBlock(bits, level * 100_000, output)
    }
    if (bits.word() !== whole >>> 0) throw malformed("the total checksum does not match")
  } while (!bits.align())
  return output.bytes
}
