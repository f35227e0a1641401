/** How a command is attached to the program. */
import type { Command } from "commander"
import { type Invocation, invocationOf } from "../invocation.ts"

/**
 * Runs a command once its settings are resolved. `command` is the one that was called: its arguments and options.
 * Ending normally is exit code 0; whatever is thrown becomes a line and another code.
 */
export const runs = (command: Command, run: (invocation: Invocation, command: Command) => Promise<void>): Command =>
  command.action(async () => run(await invocationOf(command), command))
