/**
 * The transports that ship with Callboard, each loaded when a URL names its scheme. The only file of the runtime that
 * imports from `plugins/`.
 */
import type { CeleryPlugin } from "../transport/celery.ts"
import type { AnyPlugin } from "../transport/job-store/plugin.ts"
import type { Plugin } from "../transport/mod.ts"

const memory = async (): Promise<Plugin> => (await import("../../plugins/memory/mod.ts")).plugin
const sqlite = async (): Promise<AnyPlugin> => (await import("../../plugins/sqlite/mod.ts")).plugin
const nats = async (): Promise<AnyPlugin> => (await import("../../plugins/nats/mod.ts")).plugin
const postgres = async (): Promise<AnyPlugin> => (await import("../../plugins/postgres/mod.ts")).plugin
const redis = async (): Promise<AnyPlugin> => (await import("../../plugins/redis/mod.ts")).plugin
const amqp = async (): Promise<AnyPlugin> => (await import("../../plugins/amqp/mod.ts")).plugin

export const builtin = {
  memory,
  sqlite,
  nats,
  tls: nats,
  postgres,
  postgresql: postgres,
  redis,
  rediss: redis,
  "redis+socket": redis,
  "redis+unix": redis,
  amqp,
  amqps: amqp,
} as const

const redisCelery = async (): Promise<CeleryPlugin> => (await import("../../plugins/redis/mod.ts")).celery
const amqpCelery = async (): Promise<CeleryPlugin> => (await import("../../plugins/amqp/mod.ts")).celery

/** Plugins for Celery's messages and results, by the scheme of their URL. */
export const celeryPlugins = {
  redis: redisCelery,
  rediss: redisCelery,
  amqp: amqpCelery,
  amqps: amqpCelery,
} as const

export type BuiltinScheme = keyof typeof builtin
