/**
 * Compression of bodies, by the content type that stands in the `compression` header. What comes out is bounded before
 * it is built: a small body cannot fill the memory.
 */
import {
  brotliCompressSync,
  brotliDecompressSync,
  constants,
  deflateSync,
  unzipSync,
  zstdCompressSync,
  zstdDecompressSync,
} from "node:zlib"
import { Result } from "effect"

/** Why a body cannot be decompressed or compressed. */
export interface CompressionFailure {
  readonly _tag: "CompressionFailure"
  readonly reason: "unsupported-compression" | "too-large" | "malformed"
  readonly message: string
}

interface Method {
  readonly compress: (bytes: Uint8Array) => Uint8Array
  readonly decompress: (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Uint8Array
}

/** kombu 5.6 calls a zlib stream (RFC 1950) `application/x-gzip`; real gzip is read as well. */
const zlib: Method = { compress: (bytes) => deflateSync(bytes), decompress: unzipSync }

const brotli: Method = {
  // Quality 11, the default, is a hundred times slower than 5 for a few per cent.
  compress: (bytes) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  decompress: brotliDecompressSync,
}

const zstd: Method = { compress: (bytes) => zstdCompressSync(bytes), decompress: zstdDecompressSync }

/** kombu's names and aliases. bzip2 and xz are not here: no runtime has them built in. */
const METHODS: ReadonlyMap<string, Method> = new Map([
  ["application/x-gzip", zlib],
  ["application/gzip", zlib],
  ["gzip", zlib],
  ["zlib", zlib],
  ["application/x-brotli", brotli],
  ["brotli", brotli],
  ["application/zstd", zstd],
  ["zstd", zstd],
  ["zstandard", zstd],
])

const fail = (reason: CompressionFailure["reason"], message: string): Result.Result<never, CompressionFailure> =>
  Result.fail({ _tag: "CompressionFailure", reason, message })

const methodOf = (compression: string): Result.Result<Method, CompressionFailure> => {
  const method = METHODS.get(compression.trim().toLowerCase())
  return method === undefined
    ? fail(
        "unsupported-compression",
        `Compression "${compression.slice(0, 100)}" is not supported; use application/x-gzip, application/x-brotli or application/zstd.`,
      )
    : Result.succeed(method)
}

/** Without the node:buffer class around them, which prints, compares and clones differently. */
const plainBytes = (bytes: Uint8Array): Uint8Array => new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength)

const isTooLarge = (cause: unknown): boolean =>
  cause instanceof Error && "code" in cause && cause.code === "ERR_BUFFER_TOO_LARGE"

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
  try {
    return Result.succeed(plainBytes(method.success.compress(bytes)))
  } catch (cause) {
    return fail("malformed", `The body cannot be compressed: ${String(cause)}.`)
  }
}
