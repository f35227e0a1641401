/** An isolated actor that does not say where its file is. */
import { actor } from "callboard"

export default actor("found", { methods: { run: { isolation: "process", run: () => process.pid } } })
