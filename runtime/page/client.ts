/** Calls of the HTTP interface, with the reader's token. Each call ends with a value or an {@link ApiError}. */

/** Why a call failed. `status` is 0 where there was no answer. */
export class ApiError extends Error {
  readonly status: number
  readonly code: string
  /** The parameter that the service refuses. */
  readonly field: string | undefined
  /** The scope that the token lacks. */
  readonly scope: string | undefined

  constructor(status: number, code: string, message: string, field?: string, scope?: string) {
    super(message)
    this.status = status
    this.code = code
    this.field = field
    this.scope = scope
  }
}

/** Parameters of a query; `undefined` is left out. */
export type Query = Readonly<Record<string, string | number | boolean | undefined>>

export interface Call {
  readonly query?: Query
  readonly body?: unknown
  readonly signal?: AbortSignal
  /** The ETag of the value that the caller has: the answer is `undefined` where the value is still the same. */
  readonly etag?: string | undefined
}

/** An answer with its ETag. `value` is `undefined` where the value has not changed, or where there is no body. */
export interface Answer {
  readonly value: unknown
  readonly etag: string | undefined
}

export interface ClientOptions {
  /** Path under which the application is mounted; empty at the root. */
  readonly base: string
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  readonly token: () => string | undefined
  /** Called for each answer, with the server's time. */
  readonly onAnswer: (status: number, serverTime: number | undefined) => void
  /** Called for each call that failed. */
  readonly onError: (error: ApiError) => void
  /** How long a call may take, in milliseconds. Defaults to 20,000. */
  readonly timeoutMs?: number
}

export const queryText = (query: Query): string => {
  const entries = Object.entries(query).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as [string, string]],
  )
  return entries.length === 0 ? "" : `?${new URLSearchParams(entries)}`
}

/** The path of a job. */
export const jobPath = (id: string, more = ""): string => `/v1/jobs/${encodeURIComponent(id)}${more}`

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined)

const problemOf = async (response: Response): Promise<ApiError> => {
  const { status } = response
  const scope = /scope="([^"]*)"/.exec(response.headers.get("www-authenticate") ?? "")?.[1]
  let body: Readonly<Record<string, unknown>> = {}
  try {
    body = Object(await response.json())
  } catch {
    // A proxy may answer in another form than the service.
  }
  const message = textOf(body["detail"]) ?? `the service answered ${status}`
  return new ApiError(
    status,
    textOf(body["code"]) ?? "unknown",
    message,
    textOf(body["field"]),
    scope ?? textOf(body["scope"]),
  )
}

export interface ApiClient {
  /** The address of a path, for links and for `curl`. */
  url(path: string, query?: Query): string
  call(method: string, path: string, call?: Call): Promise<Answer>
}

export const apiClient = (options: ClientOptions): ApiClient => {
  const url = (path: string, query: Query = {}) => `${options.base}${path}${queryText(query)}`

  const attempt = async (method: string, path: string, { query, body, signal, etag }: Call): Promise<Answer> => {
    const token = options.token()
    // Text that no header can hold is not the token of any board, and the browser would refuse to send it.
    if (token !== undefined && /[^\x21-\x7e]/.test(token))
      throw new ApiError(401, "unauthorized", "This token contains invalid characters.")
    const signals = [AbortSignal.timeout(options.timeoutMs ?? 20_000), ...(signal === undefined ? [] : [signal])]
    let response: Response
    try {
      response = await options.fetch(url(path, query), {
        method,
        headers: {
          accept: "application/json",
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(etag === undefined ? {} : { "if-none-match": etag }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.any(signals),
        cache: "no-store",
        redirect: "error",
      })
    } catch (cause) {
      if (signal?.aborted) throw cause
      throw new ApiError(0, "unreachable", "The service does not answer.")
    }
    const date = Date.parse(response.headers.get("date") ?? "")
    options.onAnswer(response.status, Number.isNaN(date) ? undefined : date)
    const known = response.headers.get("etag") ?? undefined
    if (response.status === 304 || response.status === 204) return { value: undefined, etag: known }
    if (!response.ok) throw await problemOf(response)
    try {
      return { value: await response.json(), etag: known }
    } catch (cause) {
      if (signal?.aborted) throw cause
      throw new ApiError(0, "unreadable", "The response of the service is incomplete.")
    }
  }

  return {
    url,
    call: async (method, path, call = {}) => {
      try {
        return await attempt(method, path, call)
      } catch (error) {
        if (error instanceof ApiError) options.onError(error)
        throw error
      }
    },
  }
}

const MAX_MS = 30_000

/**
 * The wait before the next try in milliseconds: 1, 2, 4 … 30 s, half of it random, so that many open pages do not
 * return at once.
 */
export const backOff = (tries: number, chance: number): number =>
  Math.min(MAX_MS, 1_000 * 2 ** Math.min(tries - 1, 10)) * (0.5 + chance / 2)

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/** A call as a shell command. The command refers to the token by the name of a variable and never contains it. */
export const curlOf = (method: string, url: string, hasToken: boolean, body?: unknown): string =>
  [
    "curl",
    ...(method === "GET" ? [] : ["-X", method]),
    quoted(url),
    ...(hasToken ? ["-H", '"Authorization: Bearer $CALLBOARD_TOKEN"'] : []),
    ...(body === undefined ? [] : ["-H", quoted("content-type: application/json"), "-d", quoted(JSON.stringify(body))]),
  ].join(" ")
