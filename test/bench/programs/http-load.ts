/**
 * Posts tasks over connections that are kept alive, each of which has one request under way: the load of an HTTP server.
 * Plain sockets and requests that are made once, so that this process needs little of the machine.
 * `http-load.ts <port> <tasks in a request> <connections> <seconds>`
 */
import { connect, type Socket } from "node:net"
import { begin, nap, PAYLOAD, quantiles, report } from "./program.js"

const [port = "0", tasksText = "1", connectionsText = "64", secondsText = "5"] = process.argv.slice(2)
const tasks = Number(tasksText)

const task = (n: number) => ({ task: "noop.run", input: { n, payload: PAYLOAD } })
const body = JSON.stringify(tasks === 1 ? task(1) : Array.from({ length: tasks }, (_, n) => task(n)))
const head = [
  "POST /v1/jobs HTTP/1.1",
  `host: 127.0.0.1:${port}`,
  "content-type: application/json",
  `content-length: ${Buffer.byteLength(body)}`,
]
const request = Buffer.from(`${head.join("\r\n")}\r\n\r\n${body}`)

/** Bytes of the answer at the start of what has come; nothing while it is not all there. */
const answerLength = (text: string): number | undefined => {
  const end = text.indexOf("\r\n\r\n")
  if (end < 0) return undefined
  const headers = text.slice(0, end)
  if (!/^HTTP\/1\.1 (202|200)\b/.test(headers)) throw new Error(`the server answers ${text.slice(0, 500)}`)
  const length = /\r\ncontent-length: *(\d+)/i.exec(headers)?.[1]
  if (length === undefined) throw new Error(`the server does not say how long its answer is: ${headers}`)
  const whole = end + 4 + Number(length)
  return text.length >= whole ? whole : undefined
}

let isOver = false
let times: Array<number> = []

/** Posts on one connection until all is over. */
const post = (socket: Socket): void => {
  let began = 0
  let text = ""
  const send = () => {
    began = performance.now()
    socket.write(request)
  }
  socket.setNoDelay(true)
  socket.on("error", (error) => {
    throw error
  })
  // One character a byte, so that lengths are those of the header.
  socket.setEncoding("latin1").on("data", (part: string) => {
    text += part
    const length = answerLength(text)
    if (length === undefined) return
    text = text.slice(length)
    times.push(performance.now() - began)
    if (!isOver) send()
  })
  send()
}

for (let at = 0; at < Number(connectionsText); at++) {
  const socket = connect(Number(port), "127.0.0.1", () => post(socket))
}
await nap(1_000)
await begin()
times = []
const from = performance.now()
await nap(Number(secondsText) * 1_000)
const counted = times
times = []
const seconds = (performance.now() - from) / 1_000
isOver = true
report({
  jobs: counted.length * tasks,
  requestsPerSecond: counted.length / seconds,
  perSecond: (counted.length * tasks) / seconds,
  ...quantiles(counted),
})
