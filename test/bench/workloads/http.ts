/** Submission over HTTP: how many requests a server without a worker answers. */
import type { Spawned } from "../../support/servers/process.ts"
import { freePort } from "../../support/servers/process.ts"
import { type Board, nats } from "../harness/boards.ts"
import { on, ours } from "../harness/contenders.ts"
import { measure, startProgram } from "../harness/program.ts"
import { processorColumns, type Workload } from "../harness/workload.ts"
import type { Figures } from "../report/figures.ts"

const CONNECTIONS = 64
const SECONDS = 5
const BARE = "bare handler, JetStream"

/** Loads a server that listens on a port from a process of its own; client CPU is that of the server alone. */
const loaded = async (board: Board, tasks: number, start: (port: number) => Spawned): Promise<Figures> => {
  const port = await freePort()
  await using server = start(port)
  await server.waitForLine(/^LISTENING$/)
  const load = startProgram("programs/http-load.ts", [port, tasks, tasks === 1 ? CONNECTIONS : 8, SECONDS])
  return await measure(load, { broker: board.broker, clients: [server.pid] })
}

/** `tasks`: how many a request brings. */
export const http = (tasks: 1 | 100): Workload => ({
  name: tasks === 1 ? "http" : "http-batch",
  title: tasks === 1 ? "Submission over HTTP, one task a request" : `Submission over HTTP, ${tasks} tasks a request`,
  note: `${tasks === 1 ? CONNECTIONS : 8} connections for ${SECONDS} s after one to warm up; client CPU is that of the server.`,
  main: "perSecond",
  better: "more",
  columns: [
    ...(tasks === 1 ? [] : [{ key: "requestsPerSecond", title: "requests/s" }]),
    { key: "perSecond", title: "tasks/s" },
    { key: "p50", title: "p50 ms" },
    { key: "p99", title: "p99 ms" },
    ...processorColumns,
  ],
  contenders: [
    ...ours((board) => loaded(board, tasks, (port) => startProgram("programs/http.ts", [board.url, port]))).map(
      ({ ratios: _, ...contender }) => ({
        ...contender,
        ...(contender.name.includes("nats") ? { ratios: { "of bare": [BARE] } } : {}),
      }),
    ),
    {
      name: BARE,
      durability: nats.durability,
      run: () =>
        on(nats, (board) => loaded(board, tasks, (port) => startProgram("programs/http-bare.ts", [board.url, port]))),
    },
  ],
})
