/** The memory transport as client and worker use it: its driver, and what the runtime makes of a driver. */
import { plugin as driver } from "../../plugins/memory/mod.ts"
import type { LiftedPlugin } from "../../runtime/transport/job-store/plugin.ts"
import type { Transport } from "../../runtime/transport/job-store/transport.ts"
import { withJobs } from "../../runtime/transport/job-store/with-jobs.ts"

export const memory = {
  schemes: driver.schemes,
  connect: async (url, options): Promise<Transport> => withJobs(await driver.connect(url, options), options),
} satisfies LiftedPlugin

const sample = await driver.connect(new URL("memory://capabilities"), {
  namespace: "default",
  lease: 30_000,
  name: "test",
  timeout: 1_000,
})

export const { capabilities } = sample
