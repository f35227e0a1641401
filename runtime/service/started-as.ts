/**
 * What a program that calls serve() was started as. For its lease thread, and for the processes of its isolated handlers, a worker
 * in a bundle or binary starts the main program again, since it has no other file: that program loads this module, which runs
 * the thread or the handlers. A file of actors that calls serve() is loaded in such a process, too.
 */
import type { ActorDefinition } from "../actor/actor.ts"
import { servingHere } from "../worker/isolation/child-process.ts"
import { runsHandlers } from "../worker/isolation/handler-program.ts"
import { isExtending } from "../worker/leases/lease-thread.ts"

/** Whether this thread or process helps a worker, and must not start a service. The options of serve() are not checked yet. */
export const helpsWorker = (
  options: { readonly actors?: ReadonlyArray<ActorDefinition> | undefined } | null,
): boolean => {
  // The mark is also there if another copy of the package runs the handlers.
  const serving = servingHere()
  serving?.(options?.actors ?? [])
  return isExtending || runsHandlers || serving !== undefined
}
