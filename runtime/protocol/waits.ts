/**
 * What a job waits for between two deliveries: a time, a signal, or the end of another job. It is stored in the job's record, as
 * are the signals that its handler has not taken yet, so that storing a signal and waking the job are one change. Pure.
 */
import type { State } from "./state.ts"

/** What a job waits for while it is suspended. */
export interface Waits {
  /** When the job continues at the latest, in milliseconds since the epoch. */
  readonly until: number
  /** Names of the signals that it waits for. */
  readonly signals?: ReadonlyArray<string>
  /** Ids of the jobs whose end it waits for. */
  readonly jobs?: ReadonlyArray<string>
}

/** A value that was sent to a job. */
export interface Signal {
  /** Number of the signal among those of its job, from 1. */
  readonly n: number
  readonly name: string
  /** In the JSON form of results. */
  readonly value: unknown
  /** Milliseconds since the epoch. */
  readonly at: number
  /** A signal with the key of an earlier one, also of one that was taken, is not stored again. */
  readonly key?: string
}

/** Keys of signals that a job remembers. */
const MAX_KEYS = 100

/** The part of a job's record that holds its signals. */
export interface Mailbox {
  /** Signals that its handler has not taken yet, oldest first. */
  readonly signals?: ReadonlyArray<Signal>
  /** Number of the last signal that was sent to the job. */
  readonly signalled?: number
  /** Keys of the last signals that have one. */
  readonly signalKeys?: ReadonlyArray<string>
}

/** The mailbox with one more signal; `undefined` if the job was sent a signal with this key before. */
export const withSignal = (
  { signals = [], signalled = 0, signalKeys = [] }: Mailbox,
  signal: Omit<Signal, "n">,
): (Mailbox & Required<Pick<Mailbox, "signals">>) | undefined => {
  const { key } = signal
  if (key !== undefined && signalKeys.includes(key)) return undefined
  const n = signalled + 1
  return {
    signals: [...signals, { ...signal, n }],
    signalled: n,
    ...(key === undefined ? {} : { signalKeys: [...signalKeys, key].slice(-MAX_KEYS) }),
  }
}

/** The fields of the mailbox of a record that is about to be stored over `stored`, if that has signals which it does not have. */
export const mergedSignals = (wanted: Mailbox, stored: Mailbox): Mailbox => {
  const { signalled = 0, signals = [] } = wanted
  const later = stored.signals?.filter(({ n }) => n > signalled) ?? []
  if (later.length === 0) return {}
  return { ...mailboxOf(stored), signals: [...signals, ...later] }
}

/** The fields of a record that are its mailbox. */
export const mailboxOf = ({ signals, signalled, signalKeys }: Mailbox): Mailbox => ({
  ...(signals === undefined ? {} : { signals }),
  ...(signalled === undefined ? {} : { signalled }),
  ...(signalKeys === undefined ? {} : { signalKeys }),
})

/**
 * Whether a job is suspended. Its state does not tell: while a broker still has the task of the delivery that suspended it, and
 * once it is due, the job is shown as queued.
 */
export const isSuspended = ({ state, waits }: { readonly state: State; readonly waits?: Waits }): boolean =>
  waits !== undefined && (state === "scheduled" || state === "queued")

/** Whether one of these signals ends one of these waits. */
export const isAwaited = ({ signals = [] }: Waits, sent: ReadonlyArray<Pick<Signal, "name">> = []): boolean =>
  sent.some(({ name }) => signals.includes(name))
