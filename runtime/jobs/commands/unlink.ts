/** A job that was decided about waits for nobody any more. */
import type { Connection } from "../../connection/connection.ts"
import type { JobRecord } from "../../protocol/record.ts"
import { removeEdges } from "../dependencies/edges.ts"

/** Removes its edges: best effort, since a sweep removes what is left. */
export const unlink = async ({ store }: Connection, { id, after }: JobRecord): Promise<void> => {
  const edges = after?.waiting?.map((parent) => ({ parent, child: id })) ?? []
  await removeEdges(store, edges).catch(() => undefined)
}
