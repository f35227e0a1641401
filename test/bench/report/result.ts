/** What a run of the bench leaves, as it is written to the file of results. */
import type { Better, Figures } from "./figures.ts"

export interface Column {
  /** The name of a figure. */
  readonly key: string
  readonly title: string
}

export interface RowResult {
  readonly name: string
  /** What has happened to a job when its submission is acknowledged. */
  readonly durability: string
  /** Columns of ratios of the main figure, by title: the rows whose best one the row is compared with. */
  readonly ratios?: Readonly<Record<string, ReadonlyArray<string>>>
  /** One a round; nothing where the round failed. */
  readonly rounds: ReadonlyArray<Figures | undefined>
  /** Why the row is not measured, or not in all rounds. */
  readonly problem?: string
}

export interface TableResult {
  readonly workload: string
  readonly title: string
  /** What was scaled down, and how figures are to be read. */
  readonly note?: string
  /** The figure that ratios and the chart are about. */
  readonly main: string
  readonly better: Better
  readonly columns: ReadonlyArray<Column>
  /** Load average of the machine before and after. */
  readonly load: readonly [before: number, after: number]
  readonly rows: ReadonlyArray<RowResult>
}

export interface RunResult {
  readonly began: string
  readonly form: string
  readonly rounds: number
  readonly machine: string
  readonly versions: Readonly<Record<string, string>>
  readonly tables: ReadonlyArray<TableResult>
}
