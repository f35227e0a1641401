/** `callboard serve`: answers HTTP, and runs no actors; those run in workers. */
import type { Command } from "commander"
import { makeLog } from "../../log.ts"
import { serve } from "../../service.ts"
import { addSettings, HTTP_SETTINGS } from "../options.ts"
import { untilStopped } from "../run-service.ts"
import { httpOptions, serveOptions, transportText } from "../serve-options.ts"
import { runs } from "./command.ts"

export const addServe = (program: Command): void => {
  const command = program.command("serve").description("answer HTTP, without a worker")
  addSettings(command, [...HTTP_SETTINGS, "maxBody", "name", "log.format"])
  runs(command, async (invocation) => {
    const options = serveOptions(invocation)
    const log = makeLog({
      ...(options.logLevel === undefined ? {} : { level: options.logLevel }),
      ...(options.logFormat === undefined ? {} : { format: options.logFormat }),
    })
    const service = await serve({ ...options, log, http: httpOptions(invocation.config) })
    log.info(`listening on ${service.url}`, { transport: transportText(service, invocation.transport) })
    await untilStopped(service, log)
  })
}
