/** Callboard's HTTP interface, without a worker. `http.ts <transport> <port>` */
import { serve } from "callboard"

const [transport = "", port = "0"] = process.argv.slice(2)
await serve({ transport, actors: [], http: { port: Number(port) }, logLevel: "warn", signals: false })
console.log("LISTENING")
