/** Runs a service until a signal stops it, or until its worker gives up. */
import type { Log } from "../log/log.ts"
import type { Service } from "../service/service.ts"
import type { TransportError } from "../transport/mod.ts"
import type { StopReport } from "../worker/control/worker.ts"
import { CommandFailed, EXIT, lineOf } from "./failure.ts"
import type { Invocation } from "./invocation.ts"
import { isWatched } from "./serve-options.ts"

/** Resolves when the service has stopped, and logs a summary. Fails with exit code 1 when the worker gave up by itself. */
export const untilStopped = async (service: Service, log: Log, invocation: Invocation): Promise<void> => {
  const report = await stopOf(service)
  // On a terminal the numbers are in the text; for programs they are fields.
  const fields = isWatched(invocation) ? {} : { ...report }
  log.with({ logger: "callboard.cli" })[report.lost > 0 ? "warn" : "info"](stopText(report), fields)
}

/** The failure of a worker that has given up reaching its transport. */
export const gaveUp = (cause: TransportError): CommandFailed =>
  new CommandFailed(EXIT.failed, `the worker gives up: ${lineOf(cause)}`, { cause })

export const stopText = ({ finished, handedBack, stuck, lost }: StopReport): string =>
  [
    `stopped: ${finished} finished`,
    `${handedBack} handed back`,
    ...(stuck > 0 ? [`${stuck} ignored their signal`] : []),
    ...(lost > 0 ? [`${lost} not handed back, which come again when their lease is over`] : []),
  ].join(", ")

/** The report of a service once it has stopped. Fails like {@link untilStopped}. */
export const stopOf = async (service: Service): Promise<StopReport> => {
  const failure = await Promise.race([service.stopped.then(() => undefined), service.failed])
  if (failure !== undefined) {
    // Tasks are given back where the transport can be reached; the others are delivered again when their leases end.
    await service.stop({ now: true })
    throw gaveUp(failure)
  }
  const report = await service.stopped
  const reason = await Promise.race([service.worker?.done, undefined])
  if (reason === "stuck")
    throw new CommandFailed(EXIT.stuck, `${report.stuck} handlers do not stop: the process ends, to be started again`)
  return report
}
