/** Services on memory boards of their own, stopped after each test. */
import { type ActorDefinition, type ServeOptions, type Service, serve } from "callboard"
import { onTestFinished } from "vitest"
import { generateId } from "../../runtime/id.ts"

/**
 * Starts a service that is stopped with the test; resolves once it consumes. Tests that run side by side hand over the
 * `onTestFinished` of their own context.
 */
export const start = async (
  actors: ReadonlyArray<ActorDefinition>,
  options: ServeOptions = {},
  onFinished: (end: () => Promise<void>) => void = onTestFinished,
): Promise<Service> => {
  const service = await serve({
    transport: `memory://${generateId()}`,
    actors,
    signals: false,
    logLevel: "none",
    ...options,
  })
  onFinished(async () => void (await service.stop({ now: true })))
  await service.ready()
  return service
}
