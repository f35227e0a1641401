/** A log that keeps its messages from `info` on, without their fields. */
import type { Log } from "../../runtime/log/log.ts"

export const listingLog = (): { readonly lines: ReadonlyArray<string>; readonly log: Log } => {
  const lines: Array<string> = []
  const add = (line: string) => void lines.push(line)
  const log: Log = {
    level: "info",
    enabled: () => true,
    debug: () => undefined,
    info: add,
    warn: add,
    error: add,
    with: () => log,
  }
  return { lines, log }
}
