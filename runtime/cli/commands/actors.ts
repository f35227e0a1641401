/** `callboard actors`: the methods that live workers serve, with the options that hold and where each is set. */
import type { Command } from "commander"
import { runs } from "../invocation.ts"
import { optionTexts } from "../method-options.ts"

export const addActors = (program: Command): void => {
  const command = program
    .command("actors")
    .description("list the actors and methods of the running workers, with their options and where each is set")
    .argument("[actor]", "only this actor")
  runs(command, async ({ output, withClient }) => {
    const [only] = command.args
    const actors = (await withClient((client) => client.actors())).filter(
      ({ name }) => only === undefined || name === only,
    )
    if (output.json) return output.document({ actors })
    const rows = actors.flatMap((actor) =>
      actor.methods.flatMap(({ name, options }) =>
        // A worker of an older version does not report the options.
        (options === undefined ? [{ name: "", text: "", from: "" }] : optionTexts(options)).map((option, at) => [
          at === 0 ? `${actor.name}.${name}` : "",
          option.name,
          option.text,
          output.paint(option.from, option.from === "default" ? "dim" : "cyan"),
        ]),
      ),
    )
    const empty = only === undefined ? "no actors are served" : `no running worker serves actor ${only}`
    output.table(["METHOD", "OPTION", "VALUE", "SET BY"], rows, empty)
  })
}
