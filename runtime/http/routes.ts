/** All routes, in the order of the reference. */
import { boardRoutes } from "./boards.ts"
import { controlRoutes, revocationRoutes } from "./control.ts"
import { descriptionRoutes } from "./description-routes.ts"
import { eventRoutes } from "./events.ts"
import { groupRoutes } from "./groups.ts"
import { jobRoutes, whyRoutes } from "./job.ts"
import { deadRoutes, jobsRoutes } from "./jobs.ts"
import { limitRoutes } from "./method-limits.ts"
import type { Route } from "./route.ts"
import { scheduleRoutes } from "./schedules.ts"
import { healthRoutes, metricsRoutes, serviceRoutes } from "./service-routes.ts"
import { statisticsRoutes } from "./statistics.ts"
import { submitRoutes } from "./submit.ts"

export const routes: ReadonlyArray<Route> = [
  ...submitRoutes,
  ...jobRoutes,
  ...whyRoutes,
  ...jobsRoutes,
  ...groupRoutes,
  ...eventRoutes,
  ...deadRoutes,
  ...scheduleRoutes,
  ...boardRoutes,
  ...revocationRoutes,
  ...statisticsRoutes,
  ...limitRoutes,
  ...serviceRoutes,
  ...healthRoutes,
  ...controlRoutes,
  ...metricsRoutes,
  ...descriptionRoutes,
]
