/** SQLite of the runtime. */
import { TransportError } from "../../../runtime/transport/mod.ts"

/**
 * The module `node:sqlite`; `undefined` on a Node without it. It is not imported: a bundle of one file would load it at the
 * start, on a Node without it in vain, even if the program uses another transport.
 */
export const sqlite = process.getBuiltinModule?.("node:sqlite")

/** Fails with `unsupported` on a Node without `node:sqlite`. */
export const loadSqlite = (): NonNullable<typeof sqlite> => {
  if (sqlite !== undefined) return sqlite
  throw new TransportError(
    "unsupported",
    `sqlite: Node ${process.version} has no node:sqlite: use Node 24, Bun or Deno`,
  )
}
