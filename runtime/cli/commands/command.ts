/** Attaches the function of a command to commander. */
import type { Command } from "commander"
import { type Invocation, invocationOf } from "../invocation.ts"

/**
 * Runs a command once its settings are resolved. `command` is the one that was called: its arguments and options.
 * A normal return is exit code 0. An error is printed in one line and gives another exit code.
 */
export const runs = (command: Command, run: (invocation: Invocation, command: Command) => Promise<void>): Command =>
  command.action(async () => run(await invocationOf(command), command))
