/** The options of `serve()`. */
import type { ActorDefinition } from "../actor/actor.ts"
import type { ConductorOptions } from "../client/conductor.ts"
import type { ClientSettings } from "../client/settings.ts"
import type { HttpOptions, OptionsFor } from "../config/table.ts"
import type { Log, LogSink } from "../log/log.ts"
import type { Settlement } from "../transport/job-store/transport.ts"
import type { FailureHandler } from "../worker/telemetry/failure-reporter.ts"
import type { Service } from "./service.ts"

/** The options of `serve()`: the settings that are not for the command line alone, and those that only code can give. */
export interface ServeOptions extends OptionsFor<"serve" | "connect">, Pick<ClientSettings, "reconnectDelay"> {
  /** Actors to run. None: no worker is started (HTTP only). */
  readonly actors?: ReadonlyArray<ActorDefinition> | undefined
  /** Serves HTTP with these options. Defaults to false: no HTTP. */
  readonly http?: HttpOptions | false | undefined
  /** Conductors of job boards, which run until the service stops. */
  readonly conductors?: ReadonlyArray<ConductorOptions> | undefined
  /** Stop on SIGINT, SIGTERM, SIGQUIT and SIGHUP. Defaults to true. */
  readonly signals?: boolean | undefined
  /**
   * The application's own log, or an adapter to it; nothing is written anywhere else then. Defaults to standard output.
   */
  readonly log?: Log | LogSink | undefined
  /** Run in order after each failed attempt is stored; one that returns false ends the chain. */
  readonly onFailure?: ReadonlyArray<FailureHandler> | undefined
  /** Called once per settled job, after it is stored. */
  readonly onSettled?: ((settlement: Settlement) => void) | undefined
  /**
   * Called once, when the worker consumes for the first time and HTTP, if any, listens. An error that it throws is
   * logged.
   */
  readonly onReady?: ((service: Service) => unknown) | undefined
}
