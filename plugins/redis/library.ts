/** Loads the client library, which is an optional peer dependency. */
import { missingLibrary } from "../../runtime/transport/mod.ts"

/** Fails with `unsupported`: if the package is missing, it says what to install. */
export const loadRedis = async () => {
  try {
    return await import("redis")
  } catch (cause) {
    throw missingLibrary("redis", "redis", cause)
  }
}
