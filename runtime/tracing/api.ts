/** Loads OpenTelemetry, which only a program that traces needs. */
import { CallboardError } from "../errors.ts"
import { loadProblem } from "../transport/packages.ts"
import type { Api } from "./context.ts"

/** Fails with `unsupported`: if the package is missing, it says what to install. */
export const loadApi = async (): Promise<Api> => {
  try {
    return await import("@opentelemetry/api")
  } catch (cause) {
    throw new CallboardError("unsupported", `tracing: ${loadProblem("@opentelemetry/api", cause)}`, { cause })
  }
}
