/** Loads the client library, which is an optional peer dependency. */
import { missingLibrary } from "../../runtime/transport/mod.ts"

/** Fails with `unsupported`: if the package is missing, it says what to install. */
export const loadAmqplib = async () => {
  try {
    return await import("amqplib")
  } catch (cause) {
    throw missingLibrary("amqp", "amqplib", cause)
  }
}
