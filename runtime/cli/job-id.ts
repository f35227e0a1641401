/** Ids of jobs as they are given on the command line: whole, or the ending that tables show. */
import type { Client, JobPage } from "../client/client.ts"
import { CallboardError } from "../errors.ts"
import { TransportError } from "../transport/mod.ts"
import { wrongUsage } from "./failure.ts"

/** Shortest ending that is looked for, in characters. */
export const LEAST_ENDING = 4

/** How many jobs are searched for an ending at most, newest first: a list reads each of them. */
export const MOST_SEARCHED = 10_000

const PAGE = 1_000

/** Candidates that a refusal names. */
const MOST_NAMED = 5

/** What the help of a command says about the ids that it takes. */
export const ID_HELP = `its id, or an ending of at least ${LEAST_ENDING} characters that only one of the newest ${MOST_SEARCHED.toLocaleString("en")} jobs has`

/** A whole id of ours is not looked up. */
const GENERATED = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/**
 * The id of the job that is meant: the one of exactly this id, else the only one whose id ends so. What no job is found for
 * is returned as it is, for the command to say. Several are wrong usage, with the candidates.
 */
export const fullId = async (client: Client, given: string): Promise<string> => {
  if (GENERATED.test(given)) return given
  // As tables write it.
  const ending = given.replace(/^…/, "")
  if (ending.length < LEAST_ENDING || (await exists(client, given))) return given
  const found = await search(client, ending)
  if (found.length <= 1) return found[0]?.id ?? given
  const shown = found.slice(0, MOST_NAMED).map(({ id, name }) => `${id} (${name})`)
  const more = found.length > MOST_NAMED ? ` and ${found.length - MOST_NAMED} more` : ""
  return wrongUsage(`${given} is the end of several ids: ${shown.join(", ")}${more}; give more of the one you mean`)
}

export const fullIds = (client: Client, given: ReadonlyArray<string>): Promise<ReadonlyArray<string>> =>
  Promise.all(given.map((id) => fullId(client, id)))

/** Whether there is a job of exactly this id, or the transport cannot tell: then the command meets the same failure. */
const exists = async (client: Client, id: string): Promise<boolean> => {
  try {
    await client.job(id).find()
    return true
  } catch (cause) {
    return !(cause instanceof CallboardError && cause.code === "not-found")
  }
}

/** A page of jobs; none from a transport that keeps no list: there, whole ids are all there is. */
const pageAfter = async (client: Client, after: string | undefined): Promise<JobPage> => {
  try {
    return await client.jobs({ limit: PAGE, ...(after === undefined ? {} : { after }) })
  } catch (cause) {
    if (cause instanceof TransportError && cause.reason === "unsupported") return { jobs: [] }
    throw cause
  }
}

interface Found {
  readonly id: string
  readonly name: string
}

const search = async (client: Client, ending: string): Promise<ReadonlyArray<Found>> => {
  // By id: a job that changes meanwhile may be on two pages.
  const found = new Map<string, Found>()
  let after: string | undefined
  for (let searched = 0; searched < MOST_SEARCHED; ) {
    const page = await pageAfter(client, after)
    for (const { id, name } of page.jobs) if (id.endsWith(ending)) found.set(id, { id, name })
    searched += page.jobs.length
    after = page.next
    if (after === undefined) break
  }
  return [...found.values()]
}
