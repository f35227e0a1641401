/** Reads server-sent events as they come. */

export interface ServerSentEvent {
  readonly event?: string
  readonly id?: string
  readonly data?: string
  /** A line that is no event: a sign of life. */
  readonly comment?: string
}

/** Blocks of a stream, parsed, until it ends. */
export const eventsOf = async function* (response: Response): AsyncGenerator<ServerSentEvent, void, undefined> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  if (reader === undefined) return
  let rest = ""
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      rest += value
      const blocks = rest.split("\n\n")
      rest = blocks.pop() ?? ""
      for (const block of blocks) yield parse(block)
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

const parse = (block: string): ServerSentEvent => {
  const fields: Record<string, string> = {}
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":")
    fields[colon === 0 ? "comment" : line.slice(0, colon)] = line.slice(colon + 1).trim()
  }
  return fields
}
