/** Connects to Celery's messages (events, commands, replies) and results, through the plugin for their URL. */
import type { CeleryMessages, CeleryPlugin, CeleryResults } from "../transport/celery.ts"
import { TransportError } from "../transport/mod.ts"
import { celeryPlugins } from "./builtin.ts"
import { DEFAULT_NAMESPACE, displayUrl, parseUrl } from "./connect.ts"

const CONNECT_MS = 5_000

/** The options of such a connection. */
export interface CeleryTarget {
  /** Prefix of the queues of the board, where it has one. */
  readonly namespace?: string | undefined
  readonly name: string
}

const isKnown = (scheme: string): scheme is keyof typeof celeryPlugins => Object.hasOwn(celeryPlugins, scheme)

const pluginOf = async (url: URL): Promise<CeleryPlugin | undefined> => {
  const scheme = url.protocol.slice(0, -1)
  return isKnown(scheme) ? celeryPlugins[scheme]() : undefined
}

/** Opens the results that Celery keeps at a URL. Fails with `TransportError`. */
export const openCeleryResults = async (target: string, { name }: CeleryTarget): Promise<CeleryResults> => {
  const url = parseUrl(target)
  if (url === undefined) throw new TransportError("invalid", `resultBackend: ${displayUrl(target)} is not a URL`)
  const results = (await pluginOf(url))?.results
  if (results === undefined) {
    const why = `resultBackend: ${url.protocol} cannot store Celery results: use redis:, rediss: or rpc:`
    throw new TransportError("unsupported", why)
  }
  return results(url, { namespace: DEFAULT_NAMESPACE, name, timeout: CONNECT_MS })
}

/** Opens what the broker at a URL carries beside tasks; `undefined` where it is none of Celery's. */
export const openCeleryMessages = async (
  target: string,
  { namespace, name }: CeleryTarget,
): Promise<CeleryMessages | undefined> => {
  const url = parseUrl(target)
  const messages = url === undefined ? undefined : (await pluginOf(url))?.messages
  return url === undefined || messages === undefined
    ? undefined
    : messages(url, {
        namespace: namespace ?? url.searchParams.get("ns") ?? DEFAULT_NAMESPACE,
        name,
        timeout: CONNECT_MS,
      })
}
