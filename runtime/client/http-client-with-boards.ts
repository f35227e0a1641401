/** The client over HTTP of `callboard/client`, which has boards as a client over a transport has them. */
import { type HttpBoard, httpBoard } from "./http-board.ts"
import { connectHttp as connect, type HttpClientSettings, type HttpClient as WithoutBoards } from "./http-client.ts"

/** {@link WithoutBoards}, with job boards. */
export interface HttpClient extends WithoutBoards {
  /** A job board, from which workers claim the jobs they want. Fails with `invalid-input`. */
  board(name: string): HttpBoard
}

/**
 * A client over the HTTP of a service at `url`: `http://127.0.0.1:7420`, with the path where it is mounted, if any. No request
 * is sent yet. Fails with `CallboardError` `invalid-input`, naming the option.
 *
 * @example
 * ```ts
 * const client = connectHttp("http://127.0.0.1:7420", { token: process.env.TOKEN })
 * const job = await client.submit("orders.total", { input: { items: ["tea"] } })
 * const total = await job.result({ timeout: "30 seconds" })
 * ```
 */
export const connectHttp = (url: string, settings: HttpClientSettings = {}): HttpClient => {
  const client = connect(url, settings)
  return Object.assign(client, { board: (name: string) => httpBoard(client, name) })
}
