/** Assertions of the kit, which needs no test runner. */
import { Buffer } from "node:buffer"
import { inspect, isDeepStrictEqual } from "node:util"
import type { TransportError, TransportReason } from "../../runtime/transport/mod.ts"

/** A promise of the contract that does not hold. */
export class BrokenPromise extends Error {
  override readonly name = "BrokenPromise"
}

/** A promise that holds for a time only, and that this process asked or looked at too late. */
export class AskedTooLate extends Error {
  override readonly name = "AskedTooLate"
}

/** No round of a case was in time: neither a pass nor a broken promise. */
export class TooBusy extends Error {
  override readonly name = "TooBusy"
}

/** What was awaited did not come at all, which no lateness of this process explains. */
export class GaveUp extends BrokenPromise {}

const show = (value: unknown): string => inspect(value, { depth: 6, breakLength: 110, maxStringLength: 200 })

/** Fails unless the condition holds; `message` says what should be true. */
export function check(condition: boolean, message: string): asserts condition {
  if (!condition) throw new BrokenPromise(message)
}

/** Fails unless both are deeply equal; `what` names the thing compared. */
export const equal = (actual: unknown, expected: unknown, what: string): void => {
  if (!isDeepStrictEqual(plain(actual), plain(expected))) {
    throw new BrokenPromise(`${what}: expected ${show(expected)}, found ${show(actual)}`)
  }
}

/** Fails unless both hold the same texts, in any order, each as often. */
export const sameSet = (actual: ReadonlyArray<string>, expected: ReadonlyArray<string>, what: string): void => {
  if (expected.length <= 10) {
    equal([...actual].sort(), [...expected].sort(), what)
    return
  }
  // Of long lists only the differences are printed.
  const [missing, other] = [without(expected, actual), without(actual, expected)]
  const some = (texts: ReadonlyArray<string>): string => texts.slice(0, 3).map(show).join(", ")
  check(
    missing.length === 0 && other.length === 0,
    `${what}: ${missing.length} of ${expected.length} are missing (${some(missing)}), ${other.length} are too many (${some(other)})`,
  )
}

/** The texts that are not in the other list, counting repetitions. */
const without = (texts: ReadonlyArray<string>, others: ReadonlyArray<string>): ReadonlyArray<string> => {
  const counts = new Map<string, number>()
  for (const each of others) counts.set(each, (counts.get(each) ?? 0) + 1)
  return texts.filter((each) => {
    const count = counts.get(each) ?? 0
    counts.set(each, count - 1)
    return count <= 0
  })
}

/** Fails unless the number lies between the two, both included. */
export const between = (actual: number, low: number, high: number, what: string): void =>
  check(actual >= low && actual <= high, `${what}: expected ${low} to ${high}, found ${actual}`)

/** Fails unless the promise rejects with a `TransportError` of this reason. */
export const refuses = async (promise: Promise<unknown>, reason: TransportReason, what: string): Promise<void> => {
  let found: unknown
  try {
    found = await promise
  } catch (error) {
    if (!isTransportError(error)) {
      throw new BrokenPromise(`${what}: expected a TransportError (${reason}), thrown was ${show(error)}`)
    }
    equal(error.reason, reason, `${what}: reason of the error "${error.message}"`)
    return
  }
  throw new BrokenPromise(`${what}: expected it to fail as ${reason}, it resolved with ${show(found)}`)
}

/** Recognised by its tag, since a plugin may have another copy of the class. */
export const isTransportError = (error: unknown): error is TransportError =>
  error instanceof Error && "_tag" in error && error._tag === "TransportError"

/** Views and buffers of one content are equal, whatever class they have; so are maps with and without a prototype. */
const plain = (value: unknown): unknown => {
  if (value instanceof Uint8Array) return `bytes ${Buffer.from(value).toString("base64")}`
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== "object" || value === null) return value
  return Object.entries(value)
    .filter(([, each]) => each !== undefined)
    .map(([key, each]): [string, unknown] => [key, plain(each)])
    .sort(([a], [b]) => (a < b ? -1 : 1))
}
