/** Loads the client library, which is an optional peer dependency. */
import { missingLibrary } from "../../runtime/transport/mod.ts"

/** Fails with `unsupported`, saying what to install, if the package is missing. */
export const loadAmqplib = async () => {
  try {
    return await import("amqplib")
  } catch (cause) {
    throw missingLibrary("amqp", "amqplib", cause)
  }
}
