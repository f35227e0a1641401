/**
 * Which runtime this process is, and whether it can run workers.
 *
 * Plain JavaScript, because the launcher asks too, on any Node.
 */

/** @typedef {"bun" | "deno" | "node"} RuntimeName */

/** The oldest Node on which workers run: it runs TypeScript in place, knows `await using`, and has `node:sqlite`. */
const LEAST_NODE = 24

/** @returns {RuntimeName} */
export function currentRuntime() {
  if ("bun" in process.versions) return "bun"
  return "deno" in process.versions ? "deno" : "node"
}

/** Whether this process can run workers and serve HTTP. */
export function canRunWorkers() {
  return currentRuntime() !== "node" || Number.parseInt(process.versions.node, 10) >= LEAST_NODE
}

/** The runtimes on which workers run, for messages. */
export const WORKER_RUNTIMES = `Bun, Deno, or Node ${LEAST_NODE} or newer`
