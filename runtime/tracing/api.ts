/** Loads OpenTelemetry, which only a program that traces needs. */
import { CallboardError } from "../errors.ts"
import type { Api } from "./context.ts"

/** Fails with `unsupported`, saying what to install, if the package is missing. */
export const loadApi = async (): Promise<Api> => {
  try {
    return await import("@opentelemetry/api")
  } catch (cause) {
    const message = "tracing: the package @opentelemetry/api is missing: npm install @opentelemetry/api"
    throw new CallboardError("unsupported", message, { cause })
  }
}
