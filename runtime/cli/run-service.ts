/** Runs a service until a signal stops it, or until its worker gives up. */
import type { Log } from "../log/log.ts"
import type { Service } from "../service/service.ts"
import type { TransportError } from "../transport/mod.ts"
import type { StopReport } from "../worker/control/worker.ts"
import { CommandFailed, EXIT, lineOf } from "./failure.ts"
import type { Invocation } from "./invocation.ts"
import { isWatched } from "./serve-options.ts"

/** Ends when the service has stopped, and says what that came to. Fails, exit code 1, when the worker gave up by itself. */
export const untilStopped = async (service: Service, log: Log, invocation: Invocation): Promise<void> => {
  const report = await stopOf(service)
  // The numbers are in the text: as fields they are for programs.
  const fields = isWatched(invocation) ? {} : { ...report }
  log.with({ logger: "callboard.cli" })[report.lost > 0 ? "warn" : "info"](stopText(report), fields)
}

/** The end of a worker whose transport was tried for long enough. */
export const gaveUp = (cause: TransportError): CommandFailed =>
  new CommandFailed(EXIT.failed, `the worker gives up: ${lineOf(cause)}`, { cause })

export const stopText = ({ finished, handedBack, stuck, lost }: StopReport): string =>
  [
    `stopped: ${finished} finished`,
    `${handedBack} handed back`,
    ...(stuck > 0 ? [`${stuck} ignored their signal`] : []),
    ...(lost > 0 ? [`${lost} not handed back, which come again when their lease is over`] : []),
  ].join(", ")

/** What the stop of a service came to, once it has stopped. Fails as {@link untilStopped} does. */
export const stopOf = async (service: Service): Promise<StopReport> => {
  const failure = await Promise.race([service.stopped.then(() => undefined), service.failed])
  if (failure !== undefined) {
    // What it holds is handed back as far as the transport can be reached; the rest comes back when its lease is over.
    await service.stop({ now: true })
    throw gaveUp(failure)
  }
  return service.stopped
}
