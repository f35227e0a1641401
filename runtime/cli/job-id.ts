/** Finds the job that an id on the command line means: a whole id, or the ending that tables show. */
import type { Client } from "../client/client.ts"
import type { JobPage } from "../client/job-query.ts"
import { CallboardError } from "../errors.ts"
import { TransportError } from "../transport/mod.ts"
import { wrongUsage } from "./failure.ts"

/** Shortest ending that is searched for, in characters. */
const LEAST_ENDING = 4

/** Most jobs that are searched for an ending, newest first, since listing reads each of them. */
export const MOST_SEARCHED = 10_000

const PAGE = 1_000

/** Most candidates that the error names. */
const MOST_NAMED = 5

/** Help text of id arguments. */
export const ID_HELP = `its id, or an ending of at least ${LEAST_ENDING} characters that only one of the newest ${MOST_SEARCHED.toLocaleString("en")} jobs has`

/** The form of generated ids, which need no lookup. */
const GENERATED = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/**
 * The id of the job with exactly this id, else of the only job whose id ends with it. A text that matches no job is
 * returned as it is, and the command reports it. Several matches are a usage error that names the candidates.
 */
export const fullId = async (client: Client, given: string): Promise<string> => {
  if (GENERATED.test(given)) return given
  // Tables print an ellipsis before the ending.
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

/** Whether a job has exactly this id. Also true where the lookup fails: the command will then report that failure. */
const exists = async (client: Client, id: string): Promise<boolean> => {
  try {
    await client.job(id).find()
    return true
  } catch (cause) {
    return !(cause instanceof CallboardError && cause.code === "not-found")
  }
}

/** A page of jobs; empty on a transport that cannot list jobs, where only whole ids work. */
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
  // Unique by id, since a job that changes during the search may be on two pages.
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
