/**
 * The tables, and the check of the version of tables that are in the file already.
 *
 * ```
 * job       one row per job: its task that waits or runs (if any), its record (if any), and what lists search. A further
 *           task of a job that has one already is in a row of its own. Rows are small, so that moving a task through
 *           the queue, counting and listing never touch a payload.
 * load      the payloads of that row: the frame of the task, the bytes of the record.
 * key       publish keys of that job, apart from the one in its row.
 * link      jobs by root, parent and group; only for jobs that have one.
 * store     keyed values.
 * news      changes and broadcasts for other processes; a row lives for seconds.
 * listener  transports that listen, and for which kinds of news.
 * ```
 *
 * A task is in exactly one of two partial indexes: `ready` (at = 0), in the order in which tasks are taken, or `later`
 * (at > 0), by the time when it is due or its lease ends. A job that has ended is in neither.
 */
import { TransportError } from "../../../runtime/transport/mod.ts"
import { type Database, int } from "./database.ts"

/** Rises with every change of the tables; stored as the file's `user_version`. */
export const SCHEMA_VERSION = 5

/** Marks a file as Callboard's (SQLite's `application_id`): "CALB". */
export const APPLICATION_ID = 0x43414c42

const TABLES = `
CREATE TABLE callboard_counter (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  version INTEGER NOT NULL,
  last INTEGER NOT NULL              -- highest number given out: rows, fences, revisions, news; begins at a random
                                     -- number: no delivery of a removed file is valid in the file that replaced it
);

CREATE TABLE callboard_namespace (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);

CREATE TABLE callboard_queue (
  id INTEGER PRIMARY KEY,
  ns INTEGER NOT NULL,
  name TEXT NOT NULL,
  UNIQUE (ns, name)
);

CREATE TABLE callboard_job (
  seq INTEGER PRIMARY KEY,           -- in order of submission
  ns INTEGER NOT NULL,
  id,                                -- 16 bytes or text; null in the row of a further task
  of INTEGER,                        -- in the row of a further task: seq of its job
  key TEXT,                          -- publish key of the task, or of the last one; null if none was published
  queue INTEGER NOT NULL,
  task TEXT NOT NULL,
  method TEXT,
  tenant TEXT,
  submitted INTEGER NOT NULL,        -- when the job was submitted
  place INTEGER,                     -- level and order
  at INTEGER,                        -- 0 ready; else when it is due or its lease ends; null without a task in the queue:
                                     -- then place, fence, due, posted and bytes have no meaning
  fence INTEGER,                     -- of the delivery that has the task, or had it last; null once it was released
  deliveries INTEGER NOT NULL DEFAULT 0,
  due INTEGER,                       -- not before; null at once
  expires INTEGER,
  posted INTEGER,                    -- when the task was published
  bytes INTEGER NOT NULL DEFAULT 0,  -- length of the frame
  state INTEGER,                     -- of the record, as are all columns below; null without a record
  rev INTEGER,
  until INTEGER,                     -- when the record may be removed; null if it stays
  hidden INTEGER NOT NULL DEFAULT 0, -- 1: the job is not listed
  dead INTEGER NOT NULL DEFAULT 0,   -- 1: a dead letter
  error TEXT                         -- fingerprint of the failure
);
CREATE UNIQUE INDEX callboard_job_id ON callboard_job (ns, id);
CREATE INDEX callboard_job_ready ON callboard_job (queue, place) WHERE at = 0;
CREATE INDEX callboard_job_later ON callboard_job (at, queue, fence) WHERE at > 0;
CREATE INDEX callboard_job_expires ON callboard_job (expires) WHERE expires IS NOT NULL;
CREATE INDEX callboard_job_until ON callboard_job (until) WHERE until IS NOT NULL;
CREATE INDEX callboard_job_further ON callboard_job (of) WHERE of IS NOT NULL;
-- Nearly all jobs succeed (4): indexes over the others cost next to nothing, and lists mostly ask for those.
CREATE INDEX callboard_job_state ON callboard_job (ns, state) WHERE state <> 4 AND hidden = 0;
CREATE INDEX callboard_job_queue_state ON callboard_job (ns, queue, state) WHERE state <> 4 AND hidden = 0;
CREATE INDEX callboard_job_task_state ON callboard_job (ns, task, state) WHERE state <> 4 AND hidden = 0;
-- Those that have succeeded are one list, in the order of their rows: at its end an entry more, which is never moved.
CREATE INDEX callboard_job_succeeded ON callboard_job (ns) WHERE state = 4 AND hidden = 0;
CREATE INDEX callboard_job_error ON callboard_job (ns, error) WHERE error IS NOT NULL;
-- The columns of these do not change when a job ends, so that each costs one entry per job.
CREATE INDEX callboard_job_queue ON callboard_job (queue);
CREATE INDEX callboard_job_task ON callboard_job (ns, task);

CREATE TABLE callboard_key (
  seq INTEGER NOT NULL,
  key TEXT NOT NULL,
  PRIMARY KEY (seq, key)
) WITHOUT ROWID;

CREATE TABLE callboard_load (seq INTEGER PRIMARY KEY, frame BLOB, record BLOB);

CREATE TABLE callboard_link (
  ns INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  ref NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (ns, kind, ref, seq)
) WITHOUT ROWID;
CREATE INDEX callboard_link_seq ON callboard_link (seq);

CREATE TABLE callboard_store (
  row INTEGER PRIMARY KEY,
  ns INTEGER NOT NULL,
  key BLOB NOT NULL,
  value BLOB NOT NULL,
  rev INTEGER NOT NULL,
  until INTEGER
);
CREATE UNIQUE INDEX callboard_store_key ON callboard_store (ns, key);
CREATE INDEX callboard_store_until ON callboard_store (until) WHERE until IS NOT NULL;

CREATE TABLE callboard_news (
  n INTEGER PRIMARY KEY,
  ns INTEGER NOT NULL,
  sender INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  topic BLOB NOT NULL,
  payload BLOB,
  at INTEGER NOT NULL
);

CREATE TABLE callboard_listener (
  instance INTEGER PRIMARY KEY,
  ns INTEGER NOT NULL,
  kinds INTEGER NOT NULL,
  until INTEGER NOT NULL
);

INSERT INTO callboard_counter VALUES (1, ${SCHEMA_VERSION}, abs(random() % ${2 ** 46}));
`

/**
 * Creates the tables in a new file, and checks their version in an existing one. Must run inside a transaction. A file
 * that Callboard owns is marked as such; in a database of the application only Callboard's own tables are touched.
 *
 * Fails with `unsupported` when another version made the tables.
 */
export const ensureSchema = (database: Database): void => {
  const known = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'callboard_counter'").get() !== undefined
  if (!known) {
    database.exec(TABLES)
    if (database.owned) {
      database.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${SCHEMA_VERSION}`)
    }
    return
  }
  const version = database.owned
    ? int(database.prepare("PRAGMA user_version").get() ?? {}, "user_version")
    : int(database.prepare("SELECT version FROM callboard_counter").get() ?? {}, "version")
  if (version !== SCHEMA_VERSION) {
    throw new TransportError(
      "unsupported",
      version > SCHEMA_VERSION
        ? `${database.label} was written by a newer Callboard (tables of version ${version}, this one supports ${SCHEMA_VERSION}): upgrade this installation`
        : `${database.label} has tables of version ${version}, which this Callboard cannot read: use another file`,
    )
  }
}
