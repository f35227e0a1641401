/**
 * The error of a test that needs a server which this machine does not have. The test fails with it; it is not skipped.
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

/** What `npm test` has found about a server; `undefined` when it did not look. */
export function foundEarlier(server: string): FoundProgram | undefined {
  const text = process.env[serversVariable]
  if (!text) return undefined
  const findings: Findings = JSON.parse(text)
  const finding = findings[server]
  if (finding !== undefined && "missing" in finding) throw new MissingServer(server, finding.missing)
  return finding
}
