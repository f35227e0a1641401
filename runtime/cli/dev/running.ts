/** Tells the process that watches over this one which jobs run, so that it can say what ended it. */
import type { Service } from "../../service/service.ts"
import { listText, oneLine, shortId } from "../format.ts"
import type { News } from "./message.ts"

/** How often it is told while the process lives. A process that exits tells it once more; one that is killed cannot. */
const EVERY_MS = 200

const MOST = 3

/** Until the signal: an end after that was decided by the process itself. */
export const tellRunning = ({ worker }: Service, tell: (news: News) => void, signal: AbortSignal): void => {
  if (worker === undefined) return
  let told = ""
  const look = () => {
    const jobs = listText(
      worker.inspect().active.map(({ id, name }) => `${oneLine(name)} ${shortId(id)}`),
      MOST,
    )
    if (jobs === told) return
    told = jobs
    tell({ type: "running", jobs })
  }
  const timer = setInterval(look, EVERY_MS)
  process.on("exit", look)
  const end = () => {
    clearInterval(timer)
    process.off("exit", look)
  }
  signal.addEventListener("abort", end, { once: true })
}
