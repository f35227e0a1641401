/** Cancels or retries many jobs: one page of a query per call, so that a call is bounded. */
import type { Connection } from "../../connection/connection.ts"
import { CallboardError, type ErrorCode } from "../../errors.ts"
import type { RecordQuery } from "../../transport/lift/transport.ts"

export interface BulkReport {
  readonly changed: number
  /** Jobs that could not be changed, for instance because they ended in between. */
  readonly refused: ReadonlyArray<{ readonly id: string; readonly code: ErrorCode; readonly detail: string }>
  /** Where the next page begins; absent on the last. */
  readonly next?: string
}

/** Decisions that run at the same time. */
const AT_A_TIME = 32

/**
 * Decides about every job on a page. A job that cannot be changed is reported, and the rest goes on. Fails as the transport
 * does; the decisions until then stay.
 */
export const decideAll = async (
  connection: Connection,
  query: RecordQuery,
  decide: (connection: Connection, id: string) => Promise<unknown>,
): Promise<BulkReport> => {
  const page = await connection.jobs.list(query)
  const ids = page.records.map((record) => record.id)
  const refused: Array<BulkReport["refused"][number]> = []
  for (let from = 0; from < ids.length; from += AT_A_TIME) {
    const some = ids.slice(from, from + AT_A_TIME)
    await Promise.all(
      some.map((id) =>
        decide(connection, id).catch((cause: unknown) => {
          if (!(cause instanceof CallboardError)) throw cause
          refused.push({ id, code: cause.code, detail: cause.message })
        }),
      ),
    )
  }
  return {
    changed: ids.length - refused.length,
    refused,
    ...(page.next === undefined ? {} : { next: page.next }),
  }
}
