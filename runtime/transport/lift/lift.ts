/**
 * What client and worker use, made out of a driver: the rules about which process may write what are here, and no driver knows them.
 */

import type { AddressedTask } from "../../protocol/message.ts"
import type { Driver, Posting } from "../driver.ts"
import type { ConnectOptions, Receipt } from "../mod.ts"
import { TransportError } from "../mod.ts"
import { readToken } from "./attempt.ts"
import { begin } from "./begin.ts"
import { toPost } from "./codec.ts"
import { Asking, asError } from "./commits.ts"
import { decide } from "./decide.ts"
import { Ends } from "./end.ts"
import { Finder } from "./find.ts"
import { Notes } from "./notes.ts"
import { Revisions } from "./revisions.ts"
import { pull } from "./take.ts"
import type { Queue, Records, Transport } from "./transport.ts"
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

  const queue: Queue = {
    publish: async (postings) => {
      guard()
      return publish(driver, postings)
    },
    pull: async (request, signal) => {
      guard()
      return pull(driver, request, signal, closing.signal)
    },
    claim: async (claims) => {
      guard()
      return Promise.all(claims.map((claim) => begin(asking, revisions, notes, claim)))
    },
    report: async (reports) => {
      guard()
      return notes.report(reports)
    },
    settle: async (settlements) => {
      guard()
      for (const { token } of settlements) notes.end(token)
      return ends.settle(settlements)
    },
    extend: (tokens) => extend(driver, tokens),
    ...browsing(driver),
  }

  const { orphans } = driver
  const records: Records = {
    find: (id) => finder.find(id),
    change: async (changes) => {
      guard()
      return Promise.all(changes.map((change) => decide(asking, capabilities, change)))
    },
    ...(orphans === undefined ? {} : { stranded: (before, max) => orphans.call(driver, before, max) }),
    query: async (query) => {
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
    queue,
    records,
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
  const receipts: Array<Receipt> = []
  const made: Array<Posting> = []
  const places: Array<number> = []
  const { capabilities } = driver
  postings.forEach((posting, at) => {
    try {
      made.push(toPost(posting, now, capabilities))
      places.push(at)
    } catch (thrown) {
      receipts[at] = { status: "failed", error: asError(thrown) }
    }
  })
  const stored = made.length === 0 ? [] : await driver.publish(made)
  if (made.length === postings.length) return stored
  for (const [nth, at] of places.entries()) {
    receipts[at] = stored[nth] ?? {
      status: "failed",
      error: new TransportError("internal", "the driver gave too few answers"),
    }
  }
  return receipts
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

const browsing = (driver: Driver): Pick<Queue, "stats" | "overdue" | "waiting"> => {
  const { queues, waiting } = driver
  return {
    ...(queues === undefined
      ? {}
      : {
          stats: async () => {
            const found = await queues.call(driver)
            return found.map(({ held, ...rest }) => ({ ...rest, inFlight: held }))
          },
        }),
    ...(waiting === undefined
      ? {}
      : {
          overdue: (now, max) => waiting.call(driver, { expiredBy: now }, max),
          waiting: (queue, max) => waiting.call(driver, { queue }, max),
        }),
  }
}
