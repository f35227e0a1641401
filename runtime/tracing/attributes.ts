/** How spans are described: OpenTelemetry's conventions for messaging, and our own words beside them. */
import type { Attributes } from "@opentelemetry/api"

export const SYSTEM = { "messaging.system": "callboard" } as const

/** The job and where its task waits. */
export const ofJob = (id: string, queue: string): Attributes => ({
  "messaging.message.id": id,
  "messaging.destination.name": queue,
})
