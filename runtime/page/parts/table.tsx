/**
 * Tables. Each element has its role as an attribute: on a phone CSS turns rows into cards, and browsers would no longer
 * treat them as a table for screen readers.
 */
import type { ComponentChildren, JSX } from "preact"
import { href } from "../router.ts"
import { idEnd } from "../seen.ts"

const ROLES = {
  table: { role: "table" },
  group: { role: "rowgroup" },
  row: { role: "row" },
  head: { role: "columnheader" },
  cell: { role: "cell" },
} as const

/** A column: its title and the classes of its head. `hidden`: only screen readers get the title. */
export type Column = string | { readonly title: ComponentChildren; readonly class?: string; readonly hidden?: boolean }

/** A column of numbers. */
export const num = (title: string): Column => ({ title, class: "num" })
/** The column of buttons. */
export const ACTIONS: Column = { title: "Actions", hidden: true }

export const Table = ({
  caption,
  columns,
  class: more = "",
  children,
}: {
  /** The content and the order of the table, for screen readers. */
  readonly caption: string
  readonly columns: ReadonlyArray<Column>
  readonly class?: string
  readonly children: ComponentChildren
}): JSX.Element => (
  <div class="tw">
    <table {...ROLES.table} class={`stack ${more}`}>
      <caption class="sr">{caption}</caption>
      <thead {...ROLES.group}>
        <tr {...ROLES.row}>
          {columns.map((column, at) => {
            const { title, class: kind, hidden = false } = typeof column === "string" ? { title: column } : column
            return (
              <th key={at} {...ROLES.head} {...(kind === undefined ? {} : { class: kind })}>
                {hidden ? <span class="sr">{title}</span> : title}
              </th>
            )
          })}
        </tr>
      </thead>
      <tbody {...ROLES.group}>{children}</tbody>
    </table>
  </div>
)

export const Row = (props: JSX.IntrinsicElements["tr"]): JSX.Element => <tr {...ROLES.row} {...props} />

export interface CellProps {
  readonly class?: string
  /** The label before the value on a phone, where the head of the table is not shown. */
  readonly label?: string
  readonly span?: number
  readonly children?: ComponentChildren
}

export const Cell = ({ class: more, label, span, children }: CellProps): JSX.Element => (
  <td
    {...ROLES.cell}
    {...(more === undefined ? {} : { class: more })}
    {...(label === undefined ? {} : { "data-l": label })}
    {...(span === undefined ? {} : { colSpan: span })}
  >
    {children}
  </td>
)

/** The cell with a job's name, which leads to the job, and the end of its id. */
export const JobCell = ({ id, name }: { readonly id: string; readonly name: string }): JSX.Element => (
  <Cell class="wide">
    <a class="b" href={href("job", id)} data-row="">
      {name}
    </a>{" "}
    <span class="id">{idEnd(id)}</span>
  </Cell>
)
