/** Services on memory boards of their own, stopped after each test. */
import { type ActorDefinition, type ServeOptions, type Service, serve } from "callboard"
import { afterEach } from "vitest"
import { generateId } from "../../../runtime/id.ts"

const services: Array<Service> = []
afterEach(async () => {
  await Promise.all(services.splice(0).map((service) => service.stop({ now: true })))
})

/** Starts a service that is stopped with the test; resolves once it consumes. */
export const start = async (actors: ReadonlyArray<ActorDefinition>, options: ServeOptions = {}): Promise<Service> => {
  const service = await serve({
    transport: `memory://${generateId()}`,
    actors,
    signals: false,
    logLevel: "none",
    ...options,
  })
  services.push(service)
  await service.ready()
  return service
}
