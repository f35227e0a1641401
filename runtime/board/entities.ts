/** The processes that work for a board: listed while they live. */
import { StoreEntry } from "../async/store-entry.ts"
import { detailsOf } from "./call-options.ts"
import { type BoardEntity, EntityRequest, entityKey, parseEntity } from "./requests.ts"
import type { BoardParts, InSession, Session } from "./session.ts"

/** Most entities that are listed. */
const ENTITIES = 10_000

const entryOf = ({ name, leaseMs }: BoardParts) =>
  new StoreEntry(`board/${name}/entity/`, EntityRequest, { ttlMs: leaseMs })

/** Lists a process until it dies or the board is closed. Fails with `invalid-input`. */
export const registerEntity = async (run: InSession, given: BoardEntity): Promise<void> => {
  const { kind, name } = parseEntity(given)
  const entity = { kind, name, metadata: detailsOf(given.metadata, "metadata").details }
  const key = entityKey(entity)
  return run(async ({ connection: { store }, renewals, board }) => {
    const entry = entryOf(board)
    const operation = entry.put(key, entity)
    await store.write([operation])
    renewals.add(
      `entity ${key}`,
      performance.now(),
      () => store.write([operation]),
      () => store.write([entry.remove(key)]),
    )
  })
}

export const entities = async (
  { connection: { store }, board }: Session,
  kind: string | undefined,
): Promise<ReadonlyArray<BoardEntity>> =>
  (await entryOf(board).list(store, ENTITIES))
    .map(({ value }) => value)
    .filter((entity) => kind === undefined || entity.kind === kind)
