/** What is known around a submission, beside the task itself. */
export interface SubmitContext {
  /** The job that submits: becomes the new job's parent. */
  readonly parent?: { readonly id: string; readonly rootId: string }
  /** W3C trace context, carried along with the task. */
  readonly traceparent?: string
  /** What tracing systems say beside it: dropped without a `traceparent`, and where it is malformed; 512 characters are kept. */
  readonly tracestate?: string
  /** Refuse names that no worker is known to serve. */
  readonly strict?: boolean
  /** Fresh ids for submissions that name none, in order: never used before, so that nothing is looked up. */
  readonly ids?: ReadonlyArray<string>
  /** Refuse tasks whose encoded body has more bytes. */
  readonly maxBody?: number
}
