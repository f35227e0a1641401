/**
 * Creates the four streams of a namespace. Streams that exist are left as they are, get more replicas where that is
 * asked for, and are refused, with a reason, where they differ from what the URL asks for.
 */
import { TransportError } from "../../../runtime/transport/mod.ts"
import { at, CODE, fromApiError, listAt, numberAt, objectAt, textAt } from "../connection/answers.ts"
import type { StreamOptions } from "../connection/config.ts"
import type { NatsLink } from "../connection/link.ts"
import { Bands, type Names } from "./names.ts"

/** The settings of the streams, as found or as asked for. */
export interface StreamSettings {
  readonly replicas: number
  readonly storage: "file" | "memory"
  readonly bands: Bands
  /** Most bytes of tasks, if there is a bound. */
  readonly maxBacklog?: number
}

const BANDS_KEY = "callboard.bands"

/** Version of the subjects and of the messages on them. */
const VERSION_KEY = "callboard.board"
const VERSION = "6"

/** How long the server remembers publish keys. Each takes 100 to 150 bytes of its memory. */
export const DEDUPE_MS = 120_000

const nanos = (ms: number): number => ms * 1_000_000

/** Most bytes of tasks, for all that submit. */
const BACKLOG_KEY = "callboard.max-backlog"

const backlogIn = (maxBacklog: number | undefined) =>
  maxBacklog === undefined ? {} : { [BACKLOG_KEY]: String(maxBacklog) }

interface StreamConfig extends Readonly<Record<string, unknown>> {
  readonly name: string
  readonly subjects: ReadonlyArray<string>
}

const configsOf = (
  names: Names,
  { replicas, storage, bands, maxBacklog }: StreamSettings,
): ReadonlyArray<StreamConfig> => {
  const ns = names.namespace
  const common = { num_replicas: replicas, storage, allow_direct: true, allow_msg_ttl: true, discard: "old" }
  return [
    {
      ...common,
      name: names.queueStream,
      description: `callboard ${ns}: tasks`,
      subjects: names.tasksOn(bands.levels),
      subject_transform: names.transform(),
      // No limit of messages or bytes: at a limit the oldest tasks would be dropped, and a stream with schedules cannot
      // refuse new ones instead. Submitters keep to the bound in the metadata.
      retention: "workqueue",
      allow_msg_schedules: true,
      duplicate_window: nanos(DEDUPE_MS),
      metadata: { [BANDS_KEY]: String(bands.count), [VERSION_KEY]: VERSION, ...backlogIn(maxBacklog) },
    },
    {
      ...common,
      name: names.stateStream,
      description: `callboard ${ns}: records of jobs`,
      subjects: [`${ns}.t.*`],
      // A new record replaces the one before in the same step, so that no old one can be left behind.
      max_msgs_per_subject: 1,
      // No markers for expired records: in compare-and-set a marker would count as a record.
      republish: { src: `${ns}.t.>`, dest: names.event("t") },
    },
    {
      // Entries are not in the stream of the records, since a filter makes the server look through all messages of a stream.
      ...common,
      name: names.indexStream,
      description: `callboard ${ns}: entries of records in lists`,
      subjects: [`${ns}.x.>`],
      max_msgs_per_subject: 1,
    },
    {
      ...common,
      name: names.storeStream,
      description: `callboard ${ns}: store`,
      subjects: [`${ns}.c.*`, `${ns}.k.>`],
      max_msgs_per_subject: 1,
      allow_atomic: true,
      // The server publishes a marker when a value's time to live has ended, so that watchers hear of it; the marker
      // expires a second later.
      subject_delete_marker_ttl: nanos(1_000),
      republish: { src: `${ns}.k.>`, dest: names.event("k") },
    },
  ]
}

/**
 * Creates the streams that are missing and returns the settings of all. Idempotent, and safe while other processes do
 * the same. Where all exist, nothing but their state is asked for, so that a user need not have the right to create
 * them. Fails with `invalid` when existing streams differ from what was asked for and cannot or must not be changed,
 * and with `unauthorized` when some are missing and this user may not create them.
 */
export const ensureStreams = async (link: NatsLink, names: Names, asked: StreamOptions): Promise<StreamSettings> => {
  const settings = settingsOf(names, await infoOf(link, names.queueStream), asked)
  await Promise.all(configsOf(names, settings).map((config) => ensureStream(link, config)))
  // Another process may have created them at the same time, with other settings.
  return settingsOf(names, await infoOf(link, names.queueStream), asked)
}

const infoOf = async (link: NatsLink, stream: string): Promise<unknown> => {
  const { answer, error } = await link.tryApi(`STREAM.INFO.${stream}`)
  if (error === undefined) return answer
  if (error.err_code === CODE.streamNotFound) return undefined
  throw fromApiError(error, `STREAM.INFO.${stream}`)
}

const settingsOf = (names: Names, found: unknown, asked: StreamOptions): StreamSettings => {
  const maxBacklog = asked.maxBacklog ?? (Number(textAt(found, "config", "metadata", BACKLOG_KEY)) || undefined)
  const bound = maxBacklog === undefined ? {} : { maxBacklog }
  if (found === undefined) {
    return {
      ...bound,
      replicas: asked.replicas ?? 1,
      storage: asked.storage ?? "file",
      bands: new Bands(asked.bands ?? 3),
    }
  }
  const replicas = numberAt(found, "config", "num_replicas")
  const storage = textAt(found, "config", "storage") === "memory" ? "memory" : "file"
  const bands = Number(textAt(found, "config", "metadata", BANDS_KEY))
  if (!(bands >= 1 && bands <= 10)) {
    throw new TransportError(
      "invalid",
      `stream ${names.queueStream} exists but does not belong to Callboard; choose another namespace`,
    )
  }
  const version = textAt(found, "config", "metadata", VERSION_KEY) || "1"
  if (version !== VERSION) {
    throw new TransportError(
      "unsupported",
      `namespace ${names.namespace} has version ${version}, but this Callboard reads version ${VERSION}: use the Callboard that created it, choose another namespace, or delete its streams (nats stream rm ${names.namespace}_queue, _state, _index, _store)`,
    )
  }
  const differs = (what: string, is: unknown, wanted: unknown): TransportError =>
    new TransportError(
      "invalid",
      `namespace ${names.namespace} has ${what}=${is}, but the URL has ${what}=${wanted}: leave out the option, or choose another namespace`,
    )
  if (asked.bands !== undefined && asked.bands !== bands) throw differs("bands", bands, asked.bands)
  if (asked.storage !== undefined && asked.storage !== storage) throw differs("storage", storage, asked.storage)
  if (asked.replicas !== undefined && asked.replicas < replicas) throw differs("replicas", replicas, asked.replicas)
  return { ...bound, replicas: asked.replicas ?? replicas, storage, bands: new Bands(bands) }
}

const ensureStream = async (link: NatsLink, wanted: StreamConfig): Promise<void> => {
  const found = (await infoOf(link, wanted.name)) ?? (await createStream(link, wanted))
  if (found === undefined) return
  const config = at(found, "config")
  checkSame(wanted, config)
  // More replicas lose nothing; every other setting stays as an operator may have changed it.
  const change = {
    ...(numberAt(config, "num_replicas") < Number(wanted["num_replicas"])
      ? { num_replicas: wanted["num_replicas"] }
      : {}),
    ...(at(wanted, "metadata", BACKLOG_KEY) === at(config, "metadata", BACKLOG_KEY)
      ? {}
      : { metadata: { ...objectAt(config, "metadata"), ...objectAt(wanted, "metadata") } }),
  }
  if (Object.keys(change).length === 0) return
  await link.api(`STREAM.UPDATE.${wanted.name}`, { ...objectAt(config), ...change })
}

/** Creates a stream. The stream's state, if another process has created it meanwhile. */
const createStream = async (link: NatsLink, wanted: StreamConfig): Promise<unknown> => {
  const name = `STREAM.CREATE.${wanted.name}`
  const { error } = await link.tryApi(name, wanted).catch((cause: unknown) => {
    if (!(cause instanceof TransportError && cause.reason === "unauthorized")) throw cause
    throw new TransportError(
      "unauthorized",
      `stream ${wanted.name} does not exist, and this user is not allowed to create it: run \`callboard doctor\` once as a user that can publish to ${link.apiSubject(name)}`,
      { cause },
    )
  })
  if (error === undefined) return undefined
  if (error.err_code !== CODE.streamNameInUse) throw fromApiError(error, name)
  return infoOf(link, wanted.name)
}

/** The settings that this transport relies on. An operator may add limits of size, placement or compression. */
const RELIED_ON = [
  "allow_direct",
  "allow_msg_ttl",
  "allow_msg_schedules",
  "allow_atomic",
  "retention",
  "max_msgs_per_subject",
  "subject_delete_marker_ttl",
] as const

const checkSame = (wanted: StreamConfig, found: unknown): void => {
  const mismatch = (what: string, is: unknown, should: unknown): never => {
    throw new TransportError(
      "invalid",
      `stream ${wanted.name} is not configured as Callboard requires: ${what} is ${JSON.stringify(is)}, not ${JSON.stringify(should)}`,
    )
  }
  const subjects = [...listAt(found, "subjects")].map(String).sort().join()
  if (subjects !== [...wanted.subjects].sort().join()) mismatch("subjects", subjects, wanted.subjects)
  for (const name of RELIED_ON) {
    const is = at(found, name)
    if (wanted[name] !== undefined && is !== wanted[name]) mismatch(name, is, wanted[name])
  }
  // A stream with limits drops its oldest tasks.
  if (at(wanted, "retention") === "workqueue") {
    for (const name of ["max_msgs", "max_bytes", "max_age"]) {
      if (numberAt(found, name) > 0) mismatch(name, at(found, name), "none")
    }
  }
  const [moved, move] = [at(found, "subject_transform"), at(wanted, "subject_transform")]
  if (textAt(moved, "src") !== textAt(move, "src") || textAt(moved, "dest") !== textAt(move, "dest"))
    mismatch("subject_transform", moved, move)
  if (wanted["republish"] !== undefined && textAt(found, "republish", "dest") === "") {
    mismatch("republish", at(found, "republish"), wanted["republish"])
  }
}
