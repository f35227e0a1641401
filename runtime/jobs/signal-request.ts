/** What is sent to a job as a signal. Its name, its key and its size are checked where it is stored. */
import { plainParser, type Rule } from "../options/plain.ts"
import { plainValue } from "./plain-value.ts"

export interface SignalOptions {
  /** Names this signal among those of the job: sent again with the same key, it counts once. 1 to 128 bytes. */
  readonly key?: string | undefined
}

export interface SignalRequest extends SignalOptions {
  readonly name: string
  /** In the JSON form of results. */
  readonly value?: unknown
}

const key: Rule = (text) => (typeof text === "string" ? undefined : "must be text")

export const SIGNAL_OPTIONS = { key }

/** Fails with `invalid-input`, and with `unknown-field` for an option that does not exist. */
export const parseSignalOptions = plainParser<SignalOptions>(SIGNAL_OPTIONS, "signal()")

/** A copy of the signal with its value as JSON keeps it. Fails with `invalid-input`. */
export const parseSignal = (given: SignalRequest, id: string): SignalRequest => ({
  ...given,
  value: JSON.parse(plainValue(given.value, "value", id)),
})
