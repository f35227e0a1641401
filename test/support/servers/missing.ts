/**
 * A server that a test needs and this machine does not have. The test fails with it; nothing is skipped.
 *
 * `npm test` looks for all servers first and passes its findings on in the environment, so that a missing
 * server is searched for once and named once in the summary, which finds these errors by the words "missing server:".
 */
export class MissingServer extends Error {
  override readonly name = "MissingServer"
  constructor(server: string, advice: string) {
    super(`missing server: ${server} — ${advice}`)
  }
}

/** Holds a JSON object from server names to what was found: `{ path, version }` or `{ missing }`. */
export const serversVariable = "CALLBOARD_TEST_SERVERS"

export interface FoundProgram {
  readonly path: string
  readonly version: string
}

export type Findings = Readonly<Record<string, FoundProgram | { readonly missing: string }>>

/** What `npm test` found out about a server; `undefined` when it did not look. */
export function foundEarlier(server: string): FoundProgram | undefined {
  const text = process.env[serversVariable]
  if (!text) return undefined
  const findings: Findings = JSON.parse(text)
  const finding = findings[server]
  if (finding !== undefined && "missing" in finding) throw new MissingServer(server, finding.missing)
  return finding
}
