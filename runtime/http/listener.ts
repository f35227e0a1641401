/** Listens on an address, by the server of the runtime: Bun's, Deno's or Node's. */
import { CallboardError } from "../errors.ts"
import { isBun, serveOnBun } from "../platform/bun.ts"
import { isDeno, serveOnDeno } from "../platform/deno.ts"
import { serveOnNode } from "../platform/node.ts"
import { canRunWorkers, WORKER_RUNTIMES } from "../platform/runtime.js"
import type { Address, Handler, Listener, OnLost } from "../platform/server.ts"
import { hostText } from "./access.ts"

/** Starts to listen. Fails with `invalid-input` where the address cannot be had, saying why and what to do. */
export const listen = async (address: Address, handler: Handler, onLost: OnLost): Promise<Listener> => {
  if (!canRunWorkers()) {
    throw new CallboardError(
      "unsupported",
      `HTTP is served on ${WORKER_RUNTIMES}, but this is Node ${process.version}: mount \`http(client, { tokens })\` in your own server`,
    )
  }
  const bun: unknown = Reflect.get(globalThis, "Bun")
  const deno: unknown = Reflect.get(globalThis, "Deno")
  try {
    if (isBun(bun)) return serveOnBun(bun, address, handler)
    if (isDeno(deno)) return serveOnDeno(deno, address, handler, onLost)
    return await serveOnNode(address, handler, onLost)
  } catch (cause) {
    throw cannotListen(address, cause)
  }
}

/** Another program has the port. The error of the runtime says nothing more, so it is not kept as the cause. */
export class AddressTaken extends CallboardError {
  constructor(message: string) {
    super("invalid-input", message, { field: "http.port" })
  }
}

const cannotListen = ({ host, port }: Address, cause: unknown): CallboardError => {
  const text =
    cause instanceof Error ? `${Reflect.get(cause, "code") ?? ""} ${cause.name} ${cause.message}` : String(cause)
  const address = `${hostText(host)}:${port}`
  if (/EADDRINUSE|AddrInUse|in use/i.test(text)) {
    return new AddressTaken(`http.port: ${address} is in use; choose another port, or 0 for a free one`)
  }
  if (/EACCES|PermissionDenied|permission/i.test(text)) {
    return new CallboardError(
      "invalid-input",
      `http.port: no permission to listen on ${address}; choose a port above 1023`,
      {
        field: "http.port",
        cause,
      },
    )
  }
  return new CallboardError("invalid-input", `http.host: cannot listen on ${address} (${text.trim()})`, {
    field: "http.host",
    cause,
  })
}
