/**
 * Tables. Each element says its role, which browsers take from it where CSS makes a card of a row, as on a phone: so it stays a
 * table for readers of the screen.
 */
import type { ComponentChildren, JSX } from "preact"

const ROLES = {
  table: { role: "table" },
  group: { role: "rowgroup" },
  row: { role: "row" },
  head: { role: "columnheader" },
  cell: { role: "cell" },
} as const

/** A column by its title, with the classes of its head; `hidden`: it has a title for readers of the screen alone. */
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
  /** What is in it and in which order, for readers of the screen. */
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
  /** What stands before it on a phone, where the head of the table is not seen. */
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
