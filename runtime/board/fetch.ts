/** Boards by configuration: a driver's name or a URI, and job board plugins by name. */

import { builtin } from "../connection/builtin.ts"
import { isInstalled, openConnection, type TransportSettings } from "../connection/connect.ts"
import { CallboardError } from "../errors.ts"
import { refuseInput, refuseNonObject } from "../options/refuse.ts"
import {
  type BoardConfiguration,
  boardConfiguration as configurationOf,
  reorder as reordered,
} from "../protocol/board.ts"
import { isObject } from "../protocol/guards.ts"
import { didYouMean } from "../protocol/suggest.ts"
import { Board, type BoardOptions } from "./board.ts"
import { accepted } from "./failure.ts"

/** Makes a board of a configuration, not connected yet. */
export type BoardPlugin<B = Board> = (name: string, configuration: BoardConfiguration, options: BoardOptions) => B

export interface FetchBoardSettings<B = Board> extends BoardOptions {
  /** Job board plugins, by the name of their driver. They come before the transports. */
  readonly boards?: Readonly<Record<string, BoardPlugin<B>>> | undefined
  /** Transports of third parties, by scheme. */
  readonly transports?: TransportSettings["transports"] | undefined
}

/** What a board is configured by: the name of a driver, a URI, or options with one of these as `board`. */
export type BoardSource = string | { readonly board: string; readonly [option: string]: unknown }

/**
 * The configuration that a driver's name or a URI stands for; options that are given beside it win. Fails with
 * `invalid-input`.
 *
 * @example
 * ```ts
 * boardConfiguration("redis://u:p@h:7000/?ns=a", { port: 5 }) // { username: "u", password: "p", host: "h", port: 5, ns: "a", driver: "redis" }
 * ```
 */
export const boardConfiguration = (
  source: BoardSource,
  explicit: Readonly<Record<string, unknown>> = {},
): BoardConfiguration => {
  const { board, ...options } = isOptions(source) ? source : { board: source }
  if (typeof board !== "string" || board === "") return refuseInput("board", "must be a URI, or the name of a driver")
  return accepted(configurationOf(board, { ...options, ...explicit }))
}

/** Values by their priorities, highest first, in their order inside of one. Fails with `invalid-input`. */
export const reorder = <A>(...pairs: ReadonlyArray<readonly [priority: string, value: A]>): ReadonlyArray<A> =>
  pairs.length === 0 ? refuseInput("pairs", "must be at least one") : accepted(reordered(...pairs))

const isOptions = (given: unknown): given is { readonly board?: unknown } => isObject(given)

/** The URL of a transport with what the configuration says of it. A file, which no option names, stays as it is. */
const urlOf = (source: BoardSource, configuration: BoardConfiguration): string => {
  const text = typeof source === "string" ? source : source.board
  const { driver, username, password, host, port, ...options } = configuration
  const url = new URL(URL.canParse(text) ? text : `${driver}:${host === undefined ? "" : `//${host}`}`)
  if (host !== undefined) url.hostname = String(host)
  if (port !== undefined) url.port = String(port)
  if (username !== undefined) url.username = encodeURIComponent(String(username))
  if (password !== undefined) url.password = encodeURIComponent(String(password))
  url.search = ""
  for (const [name, value] of Object.entries(options)) url.searchParams.append(name, String(value))
  return url.href
}

/**
 * A board by its name and configuration. It is not connected yet: call `connect()`, and `close()` in the end. Fails with
 * `not-found` for a driver that no plugin and no transport has, and with `invalid-input`.
 *
 * @example
 * ```ts
 * await using board = fetchBoard("builds", "nats://localhost?ns=ci")
 * await board.connect()
 * ```
 */
export const fetchBoard = <B = Board>(
  name: string,
  source: BoardSource,
  settings: FetchBoardSettings<B> = {},
): B | Board => {
  refuseNonObject(settings, "fetchBoard()", "boards")
  const { boards = {}, transports = {}, ...options } = settings
  const configuration = boardConfiguration(source)
  const { driver } = configuration
  const plugin = Object.hasOwn(boards, driver) ? boards[driver] : undefined
  if (plugin !== undefined) return plugin(name, configuration, options)
  const known = [...Object.keys(boards), ...Object.keys(transports), ...Object.keys(builtin)]
  if (!known.includes(driver) && !isInstalled(driver)) {
    const message = `no job board plugin is called ${JSON.stringify(driver.slice(0, 60))}${didYouMean(driver, known)} (known: ${known.join(", ")})`
    throw new CallboardError("not-found", message, { field: "board" })
  }
  const url = urlOf(source, configuration)
  const open = async () => {
    const connection = await openConnection(url, { transports })
    return { connection, close: () => connection.transport.close() }
  }
  return new Board(name, open, options)
}
