/** Reads columns of rows and checks their types: another program may have written into the file. */
import type { SQLOutputValue } from "node:sqlite"
import { TransportError } from "../../../runtime/transport/mod.ts"

export type Row = Readonly<Record<string, SQLOutputValue>>

const unexpected = (column: string, value: SQLOutputValue | undefined): TransportError =>
  new TransportError("internal", `the database holds a ${value === null ? "null" : typeof value} in ${column}`)

export const int = (row: Row, column: string): number => {
  const value = row[column]
  if (typeof value === "number") return value
  throw unexpected(column, value)
}

export const intOrNull = (row: Row, column: string): number | null => {
  const value = row[column]
  if (value === null || typeof value === "number") return value
  throw unexpected(column, value)
}

export const text = (row: Row, column: string): string => {
  const value = row[column]
  if (typeof value === "string") return value
  throw unexpected(column, value)
}

export const textOrNull = (row: Row, column: string): string | null => {
  const value = row[column]
  if (value === null || typeof value === "string") return value
  throw unexpected(column, value)
}

export const bytes = (row: Row, column: string): Uint8Array => {
  const value = row[column]
  if (value instanceof Uint8Array) return value
  throw unexpected(column, value)
}

export const bytesOrNull = (row: Row, column: string): Uint8Array | null => {
  const value = row[column]
  if (value === null || value instanceof Uint8Array) return value
  throw unexpected(column, value)
}
