/**
 * The transports that ship with Callboard, each loaded when a URL names its scheme. The only file of the runtime that
 * imports from `plugins/`.
 */
import type { AnyPlugin } from "../transport/lift/plugin.ts"

const memory = async (): Promise<AnyPlugin> => (await import("../../plugins/memory/mod.ts")).plugin
const sqlite = async (): Promise<AnyPlugin> => (await import("../../plugins/sqlite/mod.ts")).plugin
const nats = async (): Promise<AnyPlugin> => (await import("../../plugins/nats/mod.ts")).plugin
const postgres = async (): Promise<AnyPlugin> => (await import("../../plugins/postgres/mod.ts")).plugin

export const builtin = {
  memory,
  sqlite,
  nats,
  tls: nats,
  postgres,
  postgresql: postgres,
} as const

export type BuiltinScheme = keyof typeof builtin
