/** `callboard worker`: runs the actors of a folder until a signal stops it. */
import { type Command, Option } from "commander"
import { DEFAULTS } from "../../config.ts"
import { discoverActors } from "../../discover.ts"
import { makeLog } from "../../log.ts"
import { serve } from "../../service.ts"
import { CommandFailed, EXIT } from "../failure.ts"
import { addSettings, givenSettings, HTTP_SETTINGS, WORKER_SETTINGS } from "../options.ts"
import { untilStopped } from "../run-service.ts"
import { httpOptions, serveOptions, transportText } from "../serve-options.ts"
import { superviseWorker } from "../supervisor.ts"
import { onOrphaned, WORK_FLAG } from "../work-process.ts"
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
      const exitCode = await superviseWorker((text) => void process.stderr.write(`callboard: ${text}\n`))
      if (exitCode !== EXIT.done) throw new CommandFailed(exitCode)
      return
    }
    const { config, transport } = invocation
    const options = serveOptions(invocation)
    const log = makeLog({
      ...(options.logLevel === undefined ? {} : { level: options.logLevel }),
      ...(options.logFormat === undefined ? {} : { format: options.logFormat }),
    })
    const actors = await discoverActors(config.actors ?? DEFAULTS.actors)
    // Two workers on one machine share a configuration, but cannot share its port.
    const http = givenSettings(command).has("http.port") ? httpOptions(config) : false
    const service = await serve({ ...options, log, actors, http })
    onOrphaned(() => void service.stop())
    await Promise.race([service.ready().catch(() => undefined), service.stopped])
    if (service.worker?.listening) {
      log.info(`${service.worker.name} is ready`, {
        transport: transportText(service, transport),
        queues: service.worker.queues.join(","),
        actors: actors.map((actor) => actor.name).join(","),
        ...(service.url === undefined ? {} : { url: service.url }),
      })
    }
    await untilStopped(service, log)
  })
}
