/** Job boards of the acceptance scenarios: clients of one transport, each with its own connection, as other processes have. */
import { type Board, type BoardIterator, type BoardOptions, type Client, connect } from "callboard"
import { onTestFinished } from "vitest"

export interface Scene {
  readonly url: string
  readonly client: Client
  readonly board: Board
  /** The same board over a connection of its own. */
  other(name?: string, options?: BoardOptions): Promise<Board>
}

export const BOARD = "builds"

/** A client with a board; all is closed with the test. */
export const begin = async (url: string, options: BoardOptions = {}): Promise<Scene> => {
  const open = async () => {
    const client = await connect(url)
    onTestFinished(() => client.close())
    return client
  }
  const client = await open()
  return {
    url,
    client,
    board: client.board(BOARD, options),
    other: async (name = BOARD, given = {}) => (await open()).board(name, given),
  }
}

export const all = async <A>(iterator: AsyncIterable<A>): Promise<ReadonlyArray<A>> => {
  const found: Array<A> = []
  for await (const each of iterator) found.push(each)
  return found
}

export const namesOf = async (iterator: BoardIterator): Promise<ReadonlyArray<string>> =>
  (await all(iterator)).map(({ name }) => name)

export const refusal = (code: string) => ({ _tag: "CallboardError", code })
