/**
 * Reads the captured Celery messages of `test/fixtures/celery`, and converts values to the form that these files use.
 */
import { readFileSync } from "node:fs"
import { ExtData } from "@msgpack/msgpack"
import { Exact, ExactDate, encodeBase64 } from "../../../../runtime/protocol/exact.ts"
import type { Message } from "../../../../runtime/protocol/message.ts"

export type Fields = Readonly<Record<string, unknown>>

/** One line of `vectors.jsonl`. */
export interface Vector {
  readonly name: string
  readonly transport: string
  readonly serializer: string
  readonly protocol: number | string
  readonly raw: Fields
  readonly expect: Fields & { readonly kind: string }
}

export const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const isVector = (value: unknown): value is Vector =>
  isFields(value) && typeof value.name === "string" && isFields(value.raw) && isFields(value.expect)

const read = (): ReadonlyArray<Vector> => {
  const url = new URL("../../../fixtures/celery/vectors.jsonl", import.meta.url)
  return readFileSync(url, "utf8")
    .trim()
    .split("\n")
    .map((line): Vector => {
      const value: unknown = JSON.parse(line)
      if (!isVector(value)) throw new Error(`not a vector: ${line.slice(0, 100)}`)
      return value
    })
}

export const vectors: ReadonlyArray<Vector> = read()

export const textOf = (value: unknown): string => (typeof value === "string" ? value : "")

export const bytesOf = (base64: unknown): Uint8Array =>
  Uint8Array.from(atob(textOf(base64)), (unit) => unit.charCodeAt(0))

/** The message of a vector, as a transport would deliver it. */
export const messageOf = ({ raw }: Vector): Message => {
  const properties = isFields(raw.properties) ? raw.properties : {}
  return {
    headers: isFields(raw.headers) ? raw.headers : {},
    properties: {
      ...properties,
      content_type: textOf(raw.content_type ?? properties.content_type),
      content_encoding: textOf(raw.content_encoding ?? properties.content_encoding),
    },
    body: bytesOf(raw.body_base64),
  }
}

/** A value in the form of the vectors: plain JSON, with `$type` for all other values. */
export const canonical = (value: unknown): unknown => {
  if (typeof value === "bigint") return { $type: "bigint", value: String(value) }
  if (typeof value === "number" && !Number.isFinite(value)) return { $type: "float", value: String(value) }
  if (typeof value !== "object" || value === null) return value
  if (value instanceof Uint8Array) return { $type: "bytes", base64: encodeBase64(value) }
  if (value instanceof ExactDate) {
    const zoned = /(?:Z|[+-]\d\d:\d\d)$/.test(value.text)
    return { $type: "datetime", value: value.text, ...(zoned ? { epoch_ms: value.getTime() } : {}) }
  }
  if (value instanceof Exact) return { $type: value.type, value: value.text }
  if (value instanceof ExtData) return { $type: "msgpack-ext", code: value.type }
  if (value instanceof Set) return { $type: "set", values: [...value].map(canonical) }
  if (Array.isArray(value)) return value.map(canonical)
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, canonical(item)]))
}

/** As above, for results, events and control messages, where the vectors keep kombu's own wrappers. */
export const wrapped = (value: unknown): unknown => {
  if (typeof value !== "object" || value === null) return canonical(value)
  if (value instanceof ExactDate) return { __type__: "datetime", __value__: value.text }
  if (value instanceof Exact) {
    return {
      __type__: value.type,
      __value__: value.type === "uuid" ? { hex: value.text.replaceAll("-", "") } : value.text,
    }
  }
  if (value instanceof Uint8Array) return { __type__: "base64", __value__: encodeBase64(value) }
  if (Array.isArray(value)) return value.map(wrapped)
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, wrapped(item)]))
}
