/** `callboard serve`: serves HTTP without running actors, which run in workers. */
import type { Command } from "commander"
import { serve } from "../../service/serve.ts"
import { runs } from "../invocation.ts"
import { addSettings, HTTP_SETTINGS } from "../options.ts"
import { httpOptions, logOf, serveOptions, untilStopped } from "../run-service.ts"

export const addServe = (program: Command): void => {
  const command = program.command("serve").description("answer HTTP, without a worker")
  addSettings(command, [...HTTP_SETTINGS, "maxBody", "name", "log.format"])
  runs(command, async (invocation) => {
    const log = logOf(invocation)
    const options = serveOptions(invocation)
    const reconnect = { ...options.reconnect, atStart: false }
    const service = await serve({ ...options, reconnect, log, http: httpOptions(invocation.config) })
    await untilStopped(service, log, invocation)
  })
}
