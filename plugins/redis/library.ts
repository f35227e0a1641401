/** Loads the client library, which is an optional peer dependency. */
import { missingLibrary } from "../../runtime/transport/mod.ts"

/** Fails with `unsupported`, saying what to install, if the package is missing. */
export const loadRedis = async () => {
  try {
    return await import("redis")
  } catch (cause) {
    throw missingLibrary("redis", "redis", cause)
  }
}
