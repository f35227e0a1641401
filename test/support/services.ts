/** Services on memory boards of their own, stopped after each test. */
import { type ActorDefinition, type ServeOptions, type Service, serve } from "callboard"
import { onTestFinished } from "vitest"
import { generateId } from "../../runtime/id.ts"

/** Starts a service that is stopped with the test; resolves once it consumes. */
export const start = async (actors: ReadonlyArray<ActorDefinition>, options: ServeOptions = {}): Promise<Service> => {
  const service = await serve({
    transport: `memory://${generateId()}`,
    actors,
    signals: false,
    logLevel: "none",
    ...options,
  })
  onTestFinished(async () => void (await service.stop({ now: true })))
  await service.ready()
  return service
}
