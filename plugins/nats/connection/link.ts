/**
 * One connection to the server: requests, the JetStream API, subscriptions, and whether the server is reachable. All
 * traffic of a transport passes here, so that a call made while disconnected fails soon, instead of waiting in the
 * client's buffer.
 */
import { Empty, Events, type Msg, MsgHdrsImpl, type NatsConnection, type Subscription } from "nats"
import { encoder } from "../../../runtime/protocol/text.ts"
import { TransportError } from "../../../runtime/transport/mod.ts"
import { sleep } from "../../../runtime/transport/timers.ts"
import { type ApiError, closed, errorIn, fromApiError, fromClientError, notAllowed } from "./answers.ts"
import { Inbox } from "./inbox.ts"

/** How long a call waits for a lost connection to come back: with the timeout of the reply it ends within 3 seconds. */
const RECONNECT_MS = 1_000

/** How long a reply may take, in milliseconds. */
export const ANSWER_MS = 2_000

/** Most subjects of which it is remembered that messages to them are allowed. */
const MAX_ALLOWED = 64

/** One header block that is refilled for each message: the client encodes it before `publish` returns. */
class HeaderBlock extends MsgHdrsImpl {
  text = ""
  override encode(): Uint8Array {
    return encoder.encode(this.text)
  }
}

export interface LinkOptions {
  readonly connection: NatsConnection
  /** Whether `close` closes the connection too. */
  readonly owned: boolean
  /** JetStream domain, for servers behind a leaf node. */
  readonly domain?: string
}

type Status = "connected" | "disconnected"

export class NatsLink {
  readonly inbox: Inbox
  readonly #connection: NatsConnection
  readonly #owned: boolean
  readonly #api: string
  readonly #headers = new HeaderBlock()
  /** The options of a message without headers, and of one with them. The client reads them before `publish` returns. */
  readonly #plain = { reply: "" }
  readonly #headed = { reply: "", headers: this.#headers }
  readonly #listeners = new Set<(status: Status) => void>()
  readonly #closing = new AbortController()
  /** Subjects to which {@link tell} has sent a message that the server did not refuse. */
  readonly #allowed = new Set<string>()
  /** Subjects to which the server has refused a message. */
  readonly #refused = new Set<string>()
  /** Functions that are called at the end of this turn of the event loop. */
  readonly #soon: Array<() => void> = []
  #status: Status = "connected"
  /** Whether it was closed, and waits for no request any more. */
  #ended = false

  constructor({ connection, owned, domain }: LinkOptions) {
    this.#connection = connection
    this.#owned = owned
    this.#api = domain === undefined ? "$JS.API" : `$JS.${domain}.API`
    this.inbox = new Inbox(connection)
    void this.#follow()
  }

  /** Aborts when this link is closed. */
  get closing(): AbortSignal {
    return this.#closing.signal
  }

  get connected(): boolean {
    return this.#status === "connected"
  }

  /** Largest message that the server takes, headers included. */
  get maxPayload(): number {
    return this.#connection.info?.max_payload ?? 1024 * 1024
  }

  get serverVersion(): string {
    return this.#connection.info?.version ?? ""
  }

  /** Whether the server belongs to a cluster. */
  get hasCluster(): boolean {
    return this.#connection.info?.cluster !== undefined
  }

  /** Whether the server belongs to a cluster, and says that it has JetStream. */
  get isClustered(): boolean {
    return this.hasCluster && this.#connection.info?.jetstream === true
  }

  onStatus(listener: (status: Status) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** Whether {@link ready} would resolve at once. */
  get isReady(): boolean {
    return this.connected && !this.closing.aborted && !this.#connection.isClosed()
  }

  /** Resolves when the server is reachable; fails with `unavailable` when that takes too long, or `closed`. */
  async ready(): Promise<void> {
    if (this.closing.aborted || this.#connection.isClosed()) throw closed()
    if (this.#status === "connected") return
    await new Promise<void>((resolve, reject) => {
      const end = (error?: TransportError): void => {
        clearTimeout(timer)
        this.closing.removeEventListener("abort", abort)
        stop()
        error === undefined ? resolve() : reject(error)
      }
      const abort = (): void => end(closed())
      const timer = setTimeout(
        () => end(new TransportError("unavailable", "not connected to the server")),
        RECONNECT_MS,
      )
      const stop = this.onStatus((status) => {
        if (status === "connected") end()
      })
      this.closing.addEventListener("abort", abort)
    })
  }

  /**
   * Publishes a message. `headers` are lines that end in CRLF; an empty `reply` is none. Fails with `too-large` or
   * `closed`.
   */
  send(subject: string, payload: Uint8Array, reply = "", headers?: string): void {
    this.#catchUp()
    try {
      const options = headers === undefined ? this.#plain : this.#headed
      options.reply = reply
      if (headers !== undefined) this.#headers.text = `NATS/1.0\r\n${headers}\r\n`
      this.#connection.publish(subject, payload, options)
    } catch (error) {
      throw fromClientError(error, subject)
    }
  }

  /**
   * Does what can wait: at the end of this turn, or before the next message. What is sent then goes out in one write, and a
   * write of the socket takes longer than all else about a message. `act` must not throw.
   */
  soon(act: () => void): void {
    if (this.#soon.push(act) === 1) setImmediate(() => this.#catchUp())
  }

  /**
   * Publishes a message that nothing answers. Fails with `unauthorized` when the server does not allow it, which it says
   * after the message: the first one to a subject waits for that. Later ones do not, and go out with the next message, or at
   * the end of the turn.
   */
  async tell(subject: string, payload: Uint8Array): Promise<void> {
    await this.ready()
    this.#refused.delete(subject)
    if (this.#allowed.has(subject)) {
      return new Promise((resolve, reject) =>
        this.soon(() => {
          try {
            resolve(this.send(subject, payload))
          } catch (error) {
            reject(error)
          }
        }),
      )
    }
    this.send(subject, payload)
    let answered = false
    await atMost(
      ANSWER_MS,
      this.flush().then(() => {
        answered = true
      }),
    )
    // A frozen server answers later, or never: the message is on its way, and whether it arrives is not known.
    if (!answered) return
    // The client passes on what the server has refused in a later step than the reply to the flush.
    await sleep(0)
    const refusal = this.refusal(subject)
    if (refusal !== undefined) throw refusal
    if (this.#allowed.size >= MAX_ALLOWED) this.#allowed.clear()
    this.#allowed.add(subject)
  }

  /** The error of a subject to which the server has refused the last message. */
  refusal(subject: string): TransportError | undefined {
    return this.#refused.has(subject) ? notAllowed("publish", subject) : undefined
  }

  /** Sends a request and resolves with its reply. Fails with `unavailable` when there is none. */
  async request(subject: string, payload: Uint8Array = Empty, timeout = ANSWER_MS): Promise<Msg> {
    const answers = await this.requestMany(subject, payload, () => true, timeout)
    const [answer] = answers
    if (answer === undefined) throw new TransportError("internal", `${subject}: no answer`)
    return answer
  }

  /** Sends a request and collects replies up to the one for which `last` is true. */
  async requestMany(
    subject: string,
    payload: Uint8Array,
    last: (message: Msg) => boolean,
    timeout = ANSWER_MS,
  ): Promise<ReadonlyArray<Msg>> {
    await this.ready()
    return new Promise((resolve, reject) => {
      const answers: Array<Msg> = []
      const token = this.inbox.register({
        subjectOf: () => subject,
        timeout,
        answered: (_, message) => {
          answers.push(message)
          if (!last(message)) return false
          resolve(answers)
          return true
        },
        failed: (_, error) => reject(error),
      })
      try {
        this.send(subject, payload, this.inbox.reply(token))
      } catch (error) {
        this.inbox.cancel(token)
        reject(error)
      }
    })
  }

  apiSubject(name: string): string {
    return `${this.#api}.${name}`
  }

  /** Calls the JetStream API and returns its answer. Fails with the contract's error for an error of the API. */
  async api(name: string, body: unknown = {}): Promise<unknown> {
    const { answer, error } = await this.tryApi(name, body)
    if (error !== undefined) throw fromApiError(error, name)
    return answer
  }

  /** Like {@link api}, but an error of the API is returned and not thrown. */
  async tryApi(
    name: string,
    body: unknown = {},
    timeout = API_MS,
  ): Promise<{ readonly answer: unknown; readonly error?: ApiError }> {
    const message = await this.request(this.apiSubject(name), encoder.encode(JSON.stringify(body)), timeout)
    let answer: unknown
    try {
      answer = JSON.parse(message.string())
    } catch {
      throw new TransportError("internal", `${name}: the answer is not JSON`)
    }
    const error = errorIn(answer)
    return error === undefined ? { answer } : { answer, error }
  }

  /** `refused` is called when the server does not allow the subscription, which then ends. */
  subscribe(
    subject: string,
    listener: (message: Msg) => void,
    refused: (error: TransportError) => void = () => undefined,
  ): Subscription {
    return this.#connection.subscribe(subject, {
      callback: (error, message) => {
        if (error === null) listener(message)
        else refused(notAllowed("subscribe", subject))
      },
    })
  }

  /** Resolves when the server has seen everything sent so far. */
  async flush(): Promise<void> {
    await this.ready()
    this.#catchUp()
    try {
      await this.#connection.flush()
    } catch (error) {
      throw fromClientError(error, "flush")
    }
  }

  /**
   * Ends everything that listens to `closing`, and waits for requests that are under way. A connection of the
   * application stays open.
   */
  async close(others: () => Promise<unknown> = async () => undefined): Promise<void> {
    if (this.closing.aborted) return
    this.#closing.abort()
    if (this.connected) await atMost(API_MS, Promise.allSettled([others(), this.inbox.settled()]))
    this.#ended = true
    this.#catchUp()
    this.inbox.failAll(closed())
    this.inbox.close()
    this.#listeners.clear()
    if (this.connected)
      await atMost(
        ANSWER_MS,
        this.#connection.flush().catch(() => undefined),
      )
    if (this.#owned) await this.#connection.close()
  }

  async #follow(): Promise<void> {
    // When a connection ends for good, the client sends no status event.
    void this.#connection.closed().then(() => this.#changed("disconnected"))
    for await (const { type, permissionContext } of this.#connection.status()) {
      if (this.#ended) return
      // The server does not reply to a request that it does not allow: without this, it would look like a server that
      // is away, and the end of this link would wait for it.
      if (permissionContext?.operation === "publish") {
        this.#allowed.delete(permissionContext.subject)
        this.#refused.add(permissionContext.subject)
        this.inbox.failSubject(permissionContext.subject)
        continue
      }
      if (this.closing.aborted) continue
      if (type === Events.Disconnect) this.#changed("disconnected")
      else if (type === Events.Reconnect) {
        // The permissions may have changed meanwhile.
        this.#refused.clear()
        this.#allowed.clear()
        this.#changed("connected")
      }
    }
  }

  #catchUp(): void {
    if (this.#soon.length > 0) for (const act of this.#soon.splice(0)) act()
  }

  #changed(status: Status): void {
    if (this.#status === status) return
    this.#status = status
    if (status === "disconnected") {
      this.inbox.failAll(
        new TransportError("unavailable", "the connection to the server was lost", { outcome: "unknown" }),
      )
    }
    for (const listener of [...this.#listeners]) listener(status)
  }
}

/** How long a reply of the JetStream API may take: some list thousands of items. */
const API_MS = 5_000

/** Waits for `work`, at most this long. */
const atMost = async (ms: number, work: Promise<unknown>): Promise<void> => {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, late])
  clearTimeout(timer)
}
