/** Waits for a port: the process before may not have let go of it yet. */
import { createServer } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"

const EVERY_MS = 20

const isFree = (port: number, host: string): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer()
    probe.once("error", (error: NodeJS.ErrnoException) => resolve(error.code !== "EADDRINUSE"))
    probe.listen({ port, host, exclusive: true }, () => probe.close(() => resolve(true)))
  })

/** Whether the port becomes free within a time; 0 looks once. Any port (0) is always free. */
export const waitForPort = async (port: number, host: string, withinMs: number): Promise<boolean> => {
  if (port === 0) return true
  const end = performance.now() + withinMs
  while (!(await isFree(port, host))) {
    if (performance.now() >= end) return false
    await sleep(EVERY_MS)
  }
  return true
}
