/**
 * Compression of bodies, by the content type in the `compression` header. The size of the output is bounded while it is
 * built, so that a small body cannot fill the memory.
 */
import * as zlib from "node:zlib"
import * as Result from "effect/Result"
import { beginning } from "../text.ts"
import { readBzip2, TooLarge } from "./bzip2.ts"

/** Why a body cannot be decompressed or compressed. */
export interface CompressionFailure {
  readonly _tag: "CompressionFailure"
  readonly reason: "unsupported-compression" | "too-large" | "malformed"
  readonly message: string
}

interface Method {
  /** Absent: it is only read. */
  readonly compress?: (bytes: Uint8Array) => Uint8Array
  readonly decompress: (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Uint8Array
}

/** kombu 5.6 calls a zlib stream (RFC 1950) `application/x-gzip`; real gzip is read as well. */
const deflate: Method = { compress: (bytes) => zlib.deflateSync(bytes), decompress: zlib.unzipSync }

const brotli: Method = {
  // Quality 11, the default, is a hundred times slower than 5 for a few per cent.
  compress: (bytes) => zlib.brotliCompressSync(bytes, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 } }),
  decompress: zlib.brotliDecompressSync,
}

/** Looked up at run time: Node before 22.15 has no zstd, and an import by name would make the whole package fail. */
const zstd: Method = {
  compress: (bytes) => zlib.zstdCompressSync(bytes),
  decompress: (bytes, options) => zlib.zstdDecompressSync(bytes, options),
}

const bzip2: Method = { decompress: (bytes, { maxOutputLength }) => readBzip2(bytes, maxOutputLength) }

const isMissing = (method: Method): boolean => method === zstd && !("zstdDecompressSync" in zlib)

/** kombu's names and aliases. xz is not here: no runtime has it built in. */
const METHODS: ReadonlyMap<string, Method> = new Map([
  ["application/x-gzip", deflate],
  ["application/gzip", deflate],
  ["gzip", deflate],
  ["zlib", deflate],
  ["application/x-brotli", brotli],
  ["brotli", brotli],
  ["application/zstd", zstd],
  ["zstd", zstd],
  ["zstandard", zstd],
  ["application/x-bz2", bzip2],
  ["bzip2", bzip2],
])

const KNOWN =
  "use application/x-gzip, application/x-brotli or application/zstd (in Celery: task_compression = 'gzip', 'brotli' or 'zstd')"

const fail = (reason: CompressionFailure["reason"], message: string): Result.Result<never, CompressionFailure> =>
  Result.fail({ _tag: "CompressionFailure", reason, message })

const methodOf = (compression: string): Result.Result<Method, CompressionFailure> => {
  const method = METHODS.get(compression.trim().toLowerCase())
  if (method === undefined) {
    return fail("unsupported-compression", `Compression "${beginning(compression, 100)}" is not supported; ${KNOWN}.`)
  }
  return isMissing(method)
    ? fail("unsupported-compression", "Compression with zstd needs Bun, Deno, or Node 22.15 or newer.")
    : Result.succeed(method)
}

/** The bytes as a plain `Uint8Array`: a `Buffer` prints, compares and clones differently. */
const plainBytes = (bytes: Uint8Array): Uint8Array => new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)

const isTooLarge = (cause: unknown): boolean =>
  cause instanceof TooLarge || (cause instanceof Error && "code" in cause && cause.code === "ERR_BUFFER_TOO_LARGE")

/**
 * The bytes as they were before compression. `maxBytes` bounds the result. Fails with `unsupported-compression`,
 * `too-large` (before more than `maxBytes` have been built) or `malformed`.
 */
export const decompress = (
  bytes: Uint8Array,
  compression: string,
  maxBytes: number,
): Result.Result<Uint8Array, CompressionFailure> => {
  const method = methodOf(compression)
  if (Result.isFailure(method)) return Result.fail(method.failure)
  try {
    const inflated = method.success.decompress(bytes, { maxOutputLength: Math.max(1, maxBytes) })
    if (inflated.length > maxBytes) return fail("too-large", `More than ${maxBytes} bytes after decompression.`)
    return Result.succeed(plainBytes(inflated))
  } catch (cause) {
    if (isTooLarge(cause)) return fail("too-large", `More than ${maxBytes} bytes after decompression.`)
    const why = cause instanceof Error ? cause.message : String(cause)
    return fail("malformed", `The body is not ${compression}: ${why}.`)
  }
}

/** The bytes compressed. Fails with `unsupported-compression`. */
export const compress = (bytes: Uint8Array, compression: string): Result.Result<Uint8Array, CompressionFailure> => {
  const method = methodOf(compression)
  if (Result.isFailure(method)) return Result.fail(method.failure)
  const { compress: write } = method.success
  if (write === undefined)
    return fail("unsupported-compression", `Bodies in ${compression} can only be read; ${KNOWN}.`)
  try {
    return Result.succeed(plainBytes(write(bytes)))
  } catch (cause) {
    return fail("malformed", `The body cannot be compressed: ${String(cause)}.`)
  }
}
