/**
 * Ends a process whose worker has died, also while a handler blocks its main thread. Without a worker no time limit
 * would end a handler that loops for ever.
 */
import { parentPort, workerData } from "node:worker_threads"
import { killGroup } from "./child-process.ts"

const POLL_MS = 500

const { worker }: { readonly worker: number } = workerData

setInterval(() => {
  if (process.ppid !== worker) killGroup(process.pid)
}, POLL_MS)

parentPort?.postMessage("watching")
