/** A real HTTP endpoint for a test: remembers what it was sent, and answers what it is told to. */
import { once } from "node:events"
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"

export interface Received {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface Endpoint extends AsyncDisposable {
  readonly port: number
  readonly url: string
  readonly received: ReadonlyArray<Received>
}

/** `answer` is asked once per request; `at` counts them from 0. */
export const endpoint = async (answer: (response: ServerResponse, at: number) => void): Promise<Endpoint> => {
  const received: Array<Received> = []
  const server = createServer(async (request, response) => {
    const chunks: Array<Uint8Array> = []
    for await (const chunk of request) chunks.push(chunk)
    const { method = "", url: path = "", headers } = request
    received.push({ method, path, headers, body: Buffer.concat(chunks).toString() })
    answer(response, received.length - 1)
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return {
    port,
    url: `http://127.0.0.1:${port}/hook?a=1`,
    received,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Answers these statuses, one after the other, the last one for ever. */
export const statuses =
  (...all: ReadonlyArray<number>) =>
  (response: ServerResponse, at: number): void => {
    response.writeHead(all[Math.min(at, all.length - 1)] ?? 200).end()
  }
