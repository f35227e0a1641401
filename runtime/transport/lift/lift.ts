/**
 * What client and worker use, made out of a driver: the rules about which process may write what are here, and no driver knows them.
 */

import type { AddressedTask } from "../../protocol/message.ts"
import type { ConnectOptions, Driver, Posting, Receipt } from "../driver.ts"
import { answerEach, TransportError } from "../mod.ts"
import { readToken } from "./attempt.ts"
import { begin } from "./begin.ts"
import { toPost } from "./codec.ts"
import { Asking, unanswered } from "./commits.ts"
import { decide } from "./decide.ts"
import { Ends } from "./end.ts"
import { Finder } from "./find.ts"
import { Notes } from "./notes.ts"
import { Revisions } from "./revisions.ts"
import { take } from "./take.ts"
import type { Jobs, Transport } from "./transport.ts"
import { watchJobs } from "./watch.ts"

export const lift = (driver: Driver, { lease }: Pick<ConnectOptions, "lease">): Transport => {
  const closing = new AbortController()
  const asking = new Asking(driver)
  const revisions = new Revisions()
  const notes = new Notes(driver, asking, revisions, lease)
  const ends = new Ends(driver, asking, revisions)
  const finder = new Finder(driver, asking, notes)
  const { capabilities, broadcast } = driver

  /** What is decided here before the driver is asked must fail as the driver would. */
  const guard = (): void => {
    if (closing.signal.aborted) throw new TransportError("closed", "this transport was closed")
  }

  const { orphans, queues, waiting } = driver
  const jobs: Jobs = {
    publish: async (postings) => {
      guard()
      return publish(driver, postings)
    },
    take: async (request, signal) => {
      guard()
      return take(driver, request, signal, closing.signal)
    },
    begin: async (claims) => {
      guard()
      return Promise.all(claims.map((claim) => begin(asking, revisions, notes, claim)))
    },
    report: async (reports) => {
      guard()
      return notes.report(reports)
    },
    end: async (settlements) => {
      guard()
      for (const { token } of settlements) notes.end(token)
      return ends.settle(settlements)
    },
    extend: (tokens) => extend(driver, tokens),
    find: (id) => finder.find(id),
    decide: async (changes) => {
      guard()
      return Promise.all(changes.map((change) => decide(asking, capabilities, change)))
    },
    ...(queues === undefined ? {} : { queues: () => queues.call(driver) }),
    ...(waiting === undefined ? {} : { waiting: (what, max) => waiting.call(driver, what, max) }),
    ...(orphans === undefined ? {} : { orphans: (before, max) => orphans.call(driver, before, max) }),
    list: async (query) => {
      guard()
      return finder.query(query)
    },
    watch: async ({ id }, listener, signal) => {
      guard()
      await watchJobs(driver, finder, id, listener, AbortSignal.any([signal, closing.signal]))
    },
  }

  return {
    name: driver.name,
    capabilities,
    jobs,
    store: driver.store,
    ...(broadcast === undefined ? {} : { broadcast }),
    onStatus: (listener) => driver.onStatus(listener),
    close: () => {
      closing.abort()
      notes.close()
      return driver.close()
    },
  }
}

const publish = async (driver: Driver, postings: ReadonlyArray<AddressedTask>): Promise<ReadonlyArray<Receipt>> => {
  const now = Date.now()
  const checked = answerEach(postings, (posting) => toPost(posting, now, driver.capabilities))
  const sound = checked.filter((each): each is Posting => !("status" in each))
  const stored = sound.length === 0 ? [] : await driver.publish(sound)
  if (sound.length === postings.length) return stored
  const receipts = stored.values()
  return checked.map((each) =>
    "status" in each ? each : (receipts.next().value ?? { status: "failed", error: unanswered() }),
  )
}

/** A text that is no token holds nothing. */
const extend = async (driver: Driver, tokens: ReadonlyArray<string>): Promise<ReadonlyArray<boolean>> => {
  const held = tokens.map((token) => {
    try {
      return readToken(token).token
    } catch {
      return undefined
    }
  })
  const asked = held.filter((token) => token !== undefined)
  const answers = (await driver.extend(asked)).values()
  return held.map((token) => token !== undefined && answers.next().value === true)
}
