import type { JSX } from "preact"
import { useMemo } from "preact/hooks"
import type { JobTree } from "../../../jobs/lists.ts"
import type { FullJob } from "../../../jobs/responses.ts"
import { ENDED } from "../../attempts.ts"
import { askBulk } from "../../bulk.ts"
import { jobPath } from "../../client.ts"
import { useLoad } from "../../load.ts"
import { ActionButton, Panel, Part } from "../../parts/basic.tsx"
import { pct } from "../../parts/chart.tsx"
import { Glyph, isGlyph, WORDS } from "../../parts/icon.tsx"
import { href } from "../../router.ts"
import { idEnd } from "../../seen.ts"
import { get, now } from "../../state.ts"
import { duration, whole } from "../../times.ts"
import { linesOf } from "../../tree.ts"
import { lookOf } from "./attempts.tsx"

const TREE = 200

/** The workflow of a job that belongs to one. */
export const Belongs = ({ job }: { readonly job: FullJob }): JSX.Element | null => {
  const tree = useLoad(job.id, (stop) => get<JobTree>(jobPath(job.id, "/tree"), { limit: TREE }, stop), { every: 3 })
  const lines = useMemo(() => linesOf(tree.data?.nodes ?? []), [tree.data])
  if (tree.data !== undefined && lines.length < 2) return null
  if (tree.data === undefined && (tree.error === undefined || tree.error.status === 404)) return null
  const open = lines.filter(({ node }) => !ENDED.includes(node.state)).length
  const begin = Math.min(...lines.map(({ node }) => Date.parse(node.times.submitted)))
  const end = Math.max(
    ...lines.map(({ node }) => (node.times.ended === undefined ? now.value : Date.parse(node.times.ended))),
  )
  const part = (at: number): number => (end === begin ? 0 : (at - begin) / (end - begin))
  return (
    <Panel
      title="Workflow"
      hint={
        tree.data === undefined
          ? undefined
          : `${whole(lines.length)}${tree.data.more ? " or more" : ""} jobs, ${whole(open)} still open`
      }
      tools={
        open > 0 &&
        job.rootId !== undefined && (
          <ActionButton
            scope="operate"
            class="small quiet"
            onClick={() =>
              askBulk({ action: "cancel", which: { filter: { root: job.rootId ?? job.id } }, expected: undefined })
            }
          >
            Cancel all open jobs…
          </ActionButton>
        )
      }
    >
      <Part of={tree}>
        {({ more }) => (
          <>
            <ul class="tree">
              {lines.map(({ node, depth }) => {
                const started = node.times.started === undefined ? undefined : Date.parse(node.times.started)
                const stopped = node.times.ended === undefined ? now.value : Date.parse(node.times.ended)
                return (
                  <li key={node.id} class={node.id === job.id ? "me" : ""}>
                    <span class={`who2 d${Math.min(depth, 6)}`}>
                      {depth > 0 && (
                        <svg class="branch" viewBox="0 0 12 12" aria-hidden="true">
                          <path d="M3 0v6h7" />
                        </svg>
                      )}
                      {isGlyph(node.state) && <Glyph name={node.state} label={WORDS[node.state]} />}
                      <a class={`clip ${node.id === job.id ? "b" : ""}`} href={href("job", node.id)}>
                        {node.name}
                      </a>
                      <span class="id">{idEnd(node.id)}</span>
                    </span>
                    <span class="rel">
                      {node.kind}
                      {node.id === job.id ? ", this job" : ""}
                    </span>
                    <svg class="t" aria-hidden="true">
                      {started === undefined ? (
                        <line class="l-grid" x1="0" x2="100%" y1="7" y2="7" stroke-dasharray="2 4" />
                      ) : (
                        <rect
                          class={lookOf(node.state === "started" ? "running" : node.state)[1]}
                          x={pct(part(started))}
                          width={pct(Math.max(0.006, part(stopped) - part(started)))}
                          y="3"
                          height="8"
                          rx="2"
                        />
                      )}
                    </svg>
                    <span class="num small mid">
                      {started === undefined ? "" : duration((stopped - started) / 1000)}
                    </span>
                  </li>
                )
              })}
            </ul>
            {more && (
              <p class="body small dim">
                The first {TREE} are shown.{" "}
                <a class="link" href={href("jobs", "", { root: job.rootId ?? job.id })}>
                  All jobs of this workflow
                </a>
              </p>
            )}
          </>
        )}
      </Part>
    </Panel>
  )
}
