/** `callboard worker`: runs the actors of a folder until a signal stops it. */
import { hostname } from "node:os"
import { type Command, Option } from "commander"
import { DEFAULTS } from "../../config.ts"
import { discoverActors } from "../../discover.ts"
import { serve } from "../../service.ts"
import { TransportError } from "../../transport.ts"
import { CommandFailed, EXIT, wrongUsage } from "../failure.ts"
import { addSettings, givenSettings, HTTP_SETTINGS, WORKER_SETTINGS } from "../options.ts"
import { gaveUp, untilStopped } from "../run-service.ts"
import { httpOptions, logOf, serveOptions } from "../serve-options.ts"
import { superviseWorkers } from "../supervisor.ts"
import { onOrphaned, tellReady, WORK_FLAG } from "../work-process.ts"
import { runs } from "./command.ts"

export const addWorker = (program: Command): void => {
  const command = program
    .command("worker")
    .description("run the actors; the first signal stops softly, the second hands back now, the third ends it")
  addSettings(command, [...WORKER_SETTINGS, ...HTTP_SETTINGS])
  command.addHelpText("after", "\nHTTP (health checks and all) is answered only if --port is given here.")
  command.addOption(new Option(WORK_FLAG).hideHelp())
  runs(command, async (invocation) => {
    if (!command.opts<{ readonly workProcess?: boolean }>().workProcess) {
      const { config } = invocation
      const { processes = DEFAULTS.processes } = config
      if (processes > 1 && givenSettings(command).has("http.port"))
        wrongUsage(`--port: ${processes} processes cannot share one; \`callboard serve\` answers HTTP for all of them`)
      const name = config.name ?? `${hostname()}-${process.pid}`
      const exitCode = await superviseWorkers({
        count: processes,
        argumentsOf: (seat) => (processes === 1 ? [] : ["--name", `${name}-${seat}`]),
        note: (text) => void process.stderr.write(`callboard: ${text}\n`),
      })
      if (exitCode !== EXIT.done) throw new CommandFailed(exitCode)
      return
    }
    const { config } = invocation
    const log = logOf(invocation)
    const actors = await discoverActors(config.actors ?? DEFAULTS.actors)
    // Two workers on one machine share a configuration, but cannot share its port.
    const http = givenSettings(command).has("http.port") ? httpOptions(config) : false
    const service = await serve({ ...serveOptions(invocation), log, actors, http, onReady: tellReady }).catch(
      (cause: unknown) => {
        // It was tried again as often as it may be: the same end as when it is lost later.
        const triedAgain = config.reconnect?.atStart ?? DEFAULTS.reconnect.atStart
        if (triedAgain && cause instanceof TransportError && cause.retryable) throw gaveUp(cause)
        throw cause
      },
    )
    onOrphaned(() => void service.stop())
    await untilStopped(service, log)
  })
}
