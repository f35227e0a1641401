/** An isolated actor without the option `module`. */
import { actor } from "callboard"

export default actor("found", { methods: { run: { isolation: "process", run: () => process.pid } } })
