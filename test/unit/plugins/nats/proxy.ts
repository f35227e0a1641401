/** A TCP proxy between clients and a server. Tests cut or freeze its connections, and change what clients send. */
import { createServer, connect as dial, type Socket } from "node:net"

export interface Proxy {
  readonly port: number
  /** Ends all connections and accepts no others. */
  cut(): Promise<void>
  /** Accepts connections again, on the same port. */
  heal(): Promise<void>
  /** Keeps all connections open and forwards nothing until `thaw`. */
  freeze(): void
  thaw(): void
  /**
   * Carries so many requests, from whichever client sends first, and ends that connection when the last of them is answered, before
   * the client has the answer. Returns a function that takes this back.
   */
  loseAnswer(count: number): () => void
  stop(): Promise<void>
}

/** The faults of a conformance harness for a server that clients reach through a proxy. Both are read when a fault begins. */
export const faultsOf = (
  server: () => { kill(): Promise<unknown>; restart(): Promise<void> },
  proxy: () => Pick<Proxy, "cut" | "heal" | "freeze" | "thaw" | "loseAnswer">,
) => ({
  restart: () => server().restart(),
  kill: async () => {
    await server().kill()
    await server().restart()
  },
  cut: () => proxy().cut(),
  freeze: async () => proxy().freeze(),
  loseAnswer: (count: number) => proxy().loseAnswer(count),
  heal: async () => {
    proxy().thaw()
    await proxy().heal()
  },
})

/**
 * Starts a proxy to a port. `before` gets the bytes that a client sends, as text with one character for each byte, and resolves
 * with the bytes to send in their place; `undefined` sends them unchanged.
 */
export const startProxy = async (
  target: () => number,
  before?: (sent: string) => Promise<string> | undefined,
): Promise<Proxy> => {
  const pairs = new Set<readonly [Socket, Socket]>()
  let whole = true
  let frozen = false
  /** Whose answer is to be lost: the client that sent first, whether it waits for an answer, and which answer it is. */
  let losing: { left: number; client?: Socket; isAsking?: boolean } | undefined
  const server = createServer((client) => {
    const upstream = dial(target(), "127.0.0.1")
    const pair = [client, upstream] as const
    const end = (): void => {
      pairs.delete(pair)
      client.destroy()
      upstream.destroy()
    }
    for (const socket of pair) {
      socket.setNoDelay(true)
      socket.on("error", end)
      socket.on("close", end)
      if (frozen) socket.pause()
    }
    if (!whole) return end()
    pairs.add(pair)
    let passing: Promise<unknown> = Promise.resolve()
    client.on("data", (chunk) => {
      if (losing !== undefined) {
        losing.client ??= client
        if (losing.client === client) losing.isAsking = true
      }
      if (before === undefined) upstream.write(chunk)
      else
        passing = passing
          .then(() => before(chunk.toString("latin1")))
          .then((sent) => upstream.write(sent === undefined ? chunk : Buffer.from(sent, "latin1")))
    })
    upstream.on("data", (chunk) => {
      if (losing?.client === client && losing.isAsking) {
        losing.isAsking = false
        losing.left--
        if (losing.left === 0) {
          losing = undefined
          return end()
        }
      }
      client.write(chunk)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("the proxy has no port")
  const setFrozen = (value: boolean): void => {
    frozen = value
    for (const socket of [...pairs].flat()) value ? socket.pause() : socket.resume()
  }
  return {
    port: address.port,
    cut: async () => {
      whole = false
      for (const [client, upstream] of pairs) {
        client.destroy()
        upstream.destroy()
      }
      pairs.clear()
    },
    heal: async () => {
      whole = true
    },
    freeze: () => setFrozen(true),
    thaw: () => setFrozen(false),
    loseAnswer: (count) => {
      losing = { left: count }
      return () => {
        losing = undefined
      }
    },
    stop: async () => {
      for (const socket of [...pairs].flat()) socket.destroy()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
