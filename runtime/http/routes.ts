/** All routes, in the order of the reference. */
import { controlRoutes } from "./control.ts"
import { deadRoutes } from "./dead.ts"
import { descriptionRoutes } from "./description-routes.ts"
import { eventRoutes } from "./events.ts"
import { jobRoutes } from "./job.ts"
import { jobsRoutes } from "./jobs.ts"
import { metricsRoutes } from "./metrics.ts"
import { revocationRoutes } from "./revocations.ts"
import type { Route } from "./route.ts"
import { healthRoutes, serviceRoutes } from "./service-routes.ts"
import { submitRoutes } from "./submit.ts"
import { whyRoutes } from "./why.ts"

export const routes: ReadonlyArray<Route> = [
  ...submitRoutes,
  ...jobRoutes,
  ...whyRoutes,
  ...jobsRoutes,
  ...eventRoutes,
  ...deadRoutes,
  ...revocationRoutes,
  ...serviceRoutes,
  ...healthRoutes,
  ...controlRoutes,
  ...metricsRoutes,
  ...descriptionRoutes,
]
