/** The transport over Redis, in the layout of kombu, so that Celery's workers and clients share its queues. */
import type { Plugin } from "../../runtime/transport/driver.ts"
import { connectRedis } from "./driver.ts"
import { loadRedis } from "./library.ts"
import { settingsOf } from "./settings.ts"

export { celery } from "./celery.ts"
export { capabilitiesOf } from "./driver.ts"

/** Opens `redis:`, `rediss:`, `redis+socket:` and `redis+unix:` URLs. Needs the package `redis`. */
export const plugin: Plugin = {
  schemes: ["redis", "rediss", "redis+socket", "redis+unix"],
  connect: async (url, options) => {
    const settings = settingsOf(url, options)
    return connectRedis(await loadRedis(), settings, options)
  },
}

export default plugin
