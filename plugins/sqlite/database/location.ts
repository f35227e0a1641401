/** What a `sqlite:` URL says. Pure. */
import { type ConnectOptions, TransportError } from "../../../runtime/transport/mod.ts"

export interface Location {
  /** Path of the database file; relative to the working directory unless absolute. */
  readonly path: string
  /**
   * When a commit counts as done. `full`: once it is on the disk; survives power loss. `normal`: once it is written;
   * survives the end of the process, but the last commits may be lost with the machine. Defaults to `full`.
   */
  readonly sync: "full" | "normal"
}

/** Options that the runtime reads for all transports. */
const SHARED = ["ns", "lease", "records"]

const invalid = (message: string): TransportError => new TransportError("invalid", message)

/** Fails with `invalid`, saying how the URL should read. */
export const locate = (url: URL): Location => {
  if (url.host !== "") {
    throw invalid(
      `sqlite://${url.host}… names a host: write sqlite:${url.host}${url.pathname} for a relative path, sqlite:/path for an absolute one`,
    )
  }
  if (url.hash !== "") throw invalid(`${url.hash} is no part of the path: a # must be written as %23`)
  const path = decodePath(url.pathname)
  if (path === "") throw invalid("the URL names no file: write sqlite:jobs.db")
  if (path === ":memory:")
    throw invalid("sqlite::memory: would be lost with the process and seen by no other: use memory:")
  if (path.includes("\0")) throw invalid("the path of the database holds a zero byte")
  for (const name of url.searchParams.keys()) {
    if (name !== "sync" && !SHARED.includes(name))
      throw invalid(`sqlite: knows no option ${JSON.stringify(name)} (there is: sync, ${SHARED.join(", ")})`)
  }
  const sync = url.searchParams.get("sync") ?? "full"
  if (sync !== "full" && sync !== "normal") throw invalid(`sync=${sync}: must be full or normal`)
  return { path, sync }
}

const decodePath = (path: string): string => {
  try {
    return decodeURIComponent(path)
  } catch {
    throw invalid(`${path} is no valid path: a % must be written as %25`)
  }
}

const NAMESPACE = /^[A-Za-z0-9_-]{1,64}$/

/** Fails with `invalid`. */
export const checkOptions = ({ namespace, lease }: ConnectOptions): void => {
  if (!NAMESPACE.test(namespace)) throw invalid("a namespace is 1 to 64 letters, digits, _ or -")
  if (!(lease >= 1_000 && lease < Number.POSITIVE_INFINITY))
    throw invalid(`a lease is at least 1,000 milliseconds, not ${lease}`)
}
