/** All workloads, in the order in which they are run. */
import type { Workload } from "../harness/workload.ts"
import { acrossTwo } from "./across.ts"
import { backlog } from "./backlog.ts"
import { board } from "./board.ts"
import { celeryQueue } from "./celery.ts"
import { chord } from "./chord.ts"
import { cost, idleCost } from "./cost.ts"
import { drain } from "./draining.ts"
import { endToEnd, endToEndLonger } from "./end-to-end.ts"
import type { Form } from "./forms.ts"
import { http } from "./http.ts"
import { limit } from "./limit.ts"
import { lists } from "./lists.ts"
import { naps } from "./naps.ts"
import { rates } from "./rates.ts"
import { roundTrip, roundTripAcross } from "./round-trip.ts"
import { scheduled } from "./scheduled.ts"
import { start } from "./start.ts"
import { steps } from "./steps.ts"
import { waits } from "./waits.ts"

export const workloads = (form: Form): ReadonlyArray<Workload> => [
  endToEnd(form),
  roundTrip(form, ""),
  roundTrip(form, "spaced"),
  limit(form),
  ...(form.isFull
    ? [
        endToEndLonger(form),
        acrossTwo(form),
        roundTrip(form, "longer"),
        roundTripAcross(form, ""),
        roundTripAcross(form, "spaced"),
        roundTripAcross(form, "longer"),
        http(1),
        http(100),
        naps(form),
        drain(form),
        celeryQueue(form),
        backlog(form),
        lists(form),
        rates(form),
        scheduled(form),
        chord(),
        steps(),
        waits(),
        start(),
        board(form),
        cost(form),
        idleCost(),
      ]
    : []),
]
