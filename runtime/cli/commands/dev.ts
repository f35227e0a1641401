/** `callboard dev`: worker and HTTP in one process. A new process replaces it when a file changes. */
import { existsSync } from "node:fs"
import { resolve } from "node:path"
import type { Command } from "commander"
import { configPaths } from "../../config/file.ts"
import { DEFAULTS } from "../../options/defaults.ts"
import { runDevProcess } from "../dev/process.ts"
import { CommandFailed, EXIT } from "../failure.ts"
import { runs } from "../invocation.ts"
import { addSettings, HTTP_SETTINGS, WORKER_SETTINGS } from "../options.ts"

export const addDev = (program: Command): void => {
  const command = program.command("dev").description("run everything in one process, and again whenever a file changes")
  addSettings(command, [...WORKER_SETTINGS, ...HTTP_SETTINGS])
  runs(command, async (invocation) => {
    const actors = resolve(invocation.config.actors ?? DEFAULTS.actors)
    if (!existsSync(actors)) {
      throw new CommandFailed(
        EXIT.failed,
        `there is no folder ${actors}: make one with callboard init, or name another with --actors`,
      )
    }
    await runDevProcess(invocation, { folder: actors, files: configPaths(process.cwd()) })
  })
}
