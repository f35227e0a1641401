/** The database schema of a namespace: tables, and functions that process a batch in one round trip. */
import { createHash } from "node:crypto"
import { TransportError } from "../../runtime/transport/mod.ts"
import type { PostgresLink } from "./link.ts"

/** Version of the tables and functions. A schema of another version is refused. */
const VERSION = 6
/** How long a publish key is remembered, in milliseconds. */
export const DEDUPE_MS = 120_000
/** A time that never comes: the largest integer that JavaScript holds exactly. */
export const NEVER = Number.MAX_SAFE_INTEGER
/** Condition: a delivery has the task, and its lease has not ended. */
export const HELD = "(token IS NOT NULL AND NOT ready AND until > ms())"

const TABLES = `
CREATE TABLE meta (version int NOT NULL);
INSERT INTO meta VALUES (${VERSION});
-- Numbers of tasks, records and values: unique, and rising.
CREATE SEQUENCE counter;

CREATE TABLE job (id text COLLATE "C" PRIMARY KEY, revision bigint NOT NULL, bytes bytea NOT NULL,
  index jsonb NOT NULL, at bigint NOT NULL, until bigint NOT NULL);
CREATE INDEX ON job (at, id);
-- Lists are in the order of submission, so that each index of theirs ends with it.
CREATE INDEX ON job ((index->>'state'), at, id);
CREATE INDEX ON job ((index->>'queue'), at, id);
CREATE INDEX ON job ((index->>'task'), at, id);
-- Nearly all jobs succeed, and are their own root, without a parent and a group: these indexes cost next to nothing.
CREATE INDEX ON job ((index->>'queue'), (index->>'state'), at, id) WHERE index->>'state' <> 'succeeded';
CREATE INDEX ON job ((index->>'task'), (index->>'state'), at, id) WHERE index->>'state' <> 'succeeded';
CREATE INDEX ON job ((index->>'error'), at, id) WHERE index ? 'error';
CREATE INDEX ON job ((index->>'root'), at, id) WHERE index->>'root' <> id;
CREATE INDEX ON job ((index->>'parent'), at, id) WHERE index ? 'parent';
CREATE INDEX ON job ((index->>'group'), at, id) WHERE index ? 'group';
CREATE INDEX ON job (until) WHERE until < ${NEVER};

-- Where a task is in its queue. One that is not ready is scheduled or held until a time; after that the next take makes it
-- ready. The token is that of the last delivery; NULL once the task was given back.
CREATE TABLE task (sequence bigint PRIMARY KEY, id text COLLATE "C" NOT NULL, queue text COLLATE "C" NOT NULL,
  level int NOT NULL, ready boolean NOT NULL, until bigint NOT NULL, token text, deliveries int NOT NULL DEFAULT 0,
  at bigint NOT NULL);
CREATE INDEX ON task (queue, level DESC, sequence) WHERE ready;
CREATE INDEX ON task (queue, until) WHERE NOT ready;
CREATE INDEX ON task (token) WHERE token IS NOT NULL;

-- The same task as it was published, which never changes: a delivery writes neither its bytes nor the indexes of lists anew.
CREATE TABLE posting (sequence bigint PRIMARY KEY, id text COLLATE "C" NOT NULL, queue text COLLATE "C" NOT NULL,
  due bigint, expires bigint, posted bigint NOT NULL, index jsonb NOT NULL, at bigint NOT NULL, frame bytea NOT NULL);
CREATE INDEX ON posting (id, sequence);
CREATE INDEX ON posting (expires) WHERE expires IS NOT NULL;
CREATE INDEX ON posting (at, id);
CREATE INDEX ON posting (queue, at, id);
CREATE INDEX ON posting ((index->>'task'), at, id);
CREATE INDEX ON posting ((index->>'root'), at, id) WHERE index->>'root' <> id;
CREATE INDEX ON posting ((index->>'parent'), at, id) WHERE index ? 'parent';
CREATE INDEX ON posting ((index->>'group'), at, id) WHERE index ? 'group';

-- Publish keys, kept for the dedupe window and for as long as their task is in a queue.
CREATE TABLE posted (key text COLLATE "C" PRIMARY KEY, sequence bigint NOT NULL, until bigint NOT NULL);
CREATE INDEX ON posted (until);

-- The store. The collation "C" sorts keys by their bytes.
CREATE TABLE entry (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL, revision bigint NOT NULL,
  until bigint NOT NULL);
CREATE INDEX ON entry (until) WHERE until < ${NEVER};`

const FUNCTIONS = `
CREATE FUNCTION ms() RETURNS bigint LANGUAGE sql STABLE
  AS 'SELECT (extract(epoch FROM statement_timestamp()) * 1000)::bigint';

-- Notifications are sent when their transaction commits, so that a statement after the news sees the change.
CREATE FUNCTION tell(kind text, what text) RETURNS void LANGUAGE sql
  AS $$ SELECT pg_notify(current_schema(), kind || ' ' || what) $$;

-- Puts one task into its queue. Returns false for a duplicate key.
CREATE FUNCTION post(p jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE number bigint := nextval('counter'); due bigint := (p->>'due')::bigint; own jsonb := p->'index';
  at bigint := (own->>'at')::bigint;
BEGIN
  INSERT INTO posted AS known VALUES (p->>'key', number, ms() + ${DEDUPE_MS})
    ON CONFLICT (key) DO UPDATE SET sequence = number, until = excluded.until
    WHERE known.until <= ms() AND NOT EXISTS (SELECT FROM task WHERE task.sequence = known.sequence);
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO task VALUES (number, p->>'id', p->>'queue', (p->>'level')::int, coalesce(due, 0) <= ms(),
    coalesce(due, 0), NULL, 0, at);
  INSERT INTO posting VALUES (number, p->>'id', p->>'queue', due, (p->>'expires')::bigint, ms(), own, at,
    decode(p->>'frame', 'base64'));
  PERFORM tell('queue', p->>'queue'), tell('job', p->>'id');
  RETURN true;
END $$;

-- Each queue is read by a statement of its own, which sees what was committed until then. Tasks numbered after the start are
-- left, so that a lower queue does not bring a task that was published after one of a higher queue that was read before.
CREATE FUNCTION take(names text[], most int, turn int, lease bigint) RETURNS TABLE (token text, queue text, level int,
  sequence bigint, deliveries int, frame bytea) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE name text; rest int := most; before int; got int; newest bigint := (SELECT last_value FROM counter);
BEGIN
  UPDATE task SET ready = true WHERE sequence = ANY (ARRAY(
    SELECT sequence FROM task WHERE queue = ANY (names) AND NOT ready AND until <= ms() FOR UPDATE SKIP LOCKED));
  LOOP
    before := rest;
    FOREACH name IN ARRAY names LOOP
      RETURN QUERY WITH taken AS (
        UPDATE task SET ready = false, until = ms() + lease, deliveries = deliveries + 1,
          token = sequence || '.' || deliveries + 1
        WHERE sequence = ANY (ARRAY(SELECT sequence FROM task WHERE queue = name AND ready AND sequence <= newest
          ORDER BY level DESC, sequence LIMIT least(turn, rest) FOR UPDATE SKIP LOCKED)) RETURNING *)
        SELECT token, queue, level, sequence, deliveries, (SELECT frame FROM posting WHERE posting.sequence = taken.sequence)
          FROM taken ORDER BY level DESC, sequence;
      GET DIAGNOSTICS got = ROW_COUNT;
      rest := rest - got;
    END LOOP;
    EXIT WHEN rest = before OR rest = 0;
  END LOOP;
END $$;

-- Applies commits. A conflict skips the other steps of its commit. Postings come last, so that a withdraw does not remove
-- them; within one transaction that order is not visible.
CREATE FUNCTION settle(batch jsonb) RETURNS TABLE (place bigint, answer json) LANGUAGE plpgsql AS $$
DECLARE c jsonb; r jsonb; t jsonb; one jsonb; stored bigint; number bigint; gone boolean; name text; known text[];
BEGIN
  -- Every call locks tasks first, by sequence, and then records, by id, so that calls do not deadlock.
  PERFORM FROM task WHERE token = ANY (ARRAY(SELECT b->'task'->>'token' FROM jsonb_array_elements(batch) b))
    ORDER BY sequence FOR UPDATE;
  FOR c, place IN SELECT * FROM jsonb_array_elements(batch) WITH ORDINALITY AS i(c, n) ORDER BY i.c->>'id' LOOP
    stored := NULL; gone := NULL; r := c->'record'; t := c->'task';
    IF c ? 'unique' THEN
      known := '{}';
      BEGIN
        FOR one IN SELECT * FROM jsonb_array_elements(c->'post') LOOP
          IF NOT post(one) THEN known := known || (one->>'id'); END IF;
        END LOOP;
        IF known <> '{}' THEN RAISE EXCEPTION USING ERRCODE = 'CB001'; END IF;
        answer := '{"status": "committed", "revision": ""}';
      EXCEPTION WHEN SQLSTATE 'CB001' THEN
        answer := json_build_object('status', 'conflict', 'known', known);
      END;
      RETURN NEXT; CONTINUE;
    END IF;
    IF r IS NOT NULL THEN
      INSERT INTO job SELECT c->>'id', nextval('counter'), decode(r->>'bytes', 'base64'), r->'index',
          (r->'index'->>'at')::bigint, coalesce(ms() + (r->>'keep')::bigint, ${NEVER})
        WHERE r->>'expect' = '' OR EXISTS (SELECT FROM job WHERE id = c->>'id' AND until > ms())
        ON CONFLICT (id) DO UPDATE SET revision = excluded.revision, bytes = excluded.bytes,
          index = excluded.index, at = excluded.at, until = excluded.until
        WHERE r->>'expect' = CASE WHEN job.until > ms() THEN job.revision::text ELSE '' END
        RETURNING revision INTO stored;
      IF stored IS NULL THEN answer := '{"status": "conflict"}'; RETURN NEXT; CONTINUE; END IF;
      PERFORM tell('job', c->>'id');
    END IF;
    IF t->>'kind' = 'withdraw' THEN
      DELETE FROM task WHERE sequence = ANY (ARRAY(SELECT sequence FROM posting WHERE id = c->>'id'));
      DELETE FROM posting WHERE id = c->>'id';
    ELSIF t->>'kind' = 'ack' THEN
      DELETE FROM task WHERE token = t->>'token' RETURNING sequence INTO number;
      gone := nullif(NOT FOUND, false);
      DELETE FROM posting WHERE sequence = number;
    ELSIF t->>'kind' = 'hand-back' THEN
      UPDATE task SET token = NULL, ready = (t->>'delay')::bigint <= 0, until = ms() + (t->>'delay')::bigint
        WHERE token = t->>'token' RETURNING queue INTO name;
      IF FOUND THEN PERFORM tell('queue', name); ELSE gone := true; END IF;
    END IF;
    PERFORM post(p) FROM jsonb_array_elements(c->'post') p;
    answer := json_strip_nulls(json_build_object('status', 'committed', 'revision', coalesce(stored::text, ''), 'gone', gone));
    RETURN NEXT;
  END LOOP;
END $$;

-- Writes to the store: all operations, or none and no row. Writers of a namespace wait for each other, since an absent key
-- cannot be locked.
CREATE FUNCTION write(batch jsonb) RETURNS TABLE (place bigint, stored bigint) LANGUAGE plpgsql AS $$
DECLARE o jsonb;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended(current_schema(), 1));
  PERFORM FROM jsonb_array_elements(batch) b LEFT JOIN entry ON key = b->>'key' AND until > ms()
    WHERE b->>'expect' <> coalesce(revision::text, '');
  IF FOUND THEN RETURN; END IF;
  FOR o, place IN SELECT * FROM jsonb_array_elements(batch) WITH ORDINALITY LOOP
    stored := NULL;
    IF o ? 'value' THEN DELETE FROM entry WHERE key = o->>'key'; END IF;
    IF o->>'value' IS NOT NULL THEN
      INSERT INTO entry VALUES (o->>'key', decode(o->>'value', 'base64'), nextval('counter'),
        coalesce(ms() + (o->>'ttl')::bigint, ${NEVER})) RETURNING revision INTO stored;
    END IF;
    RETURN NEXT;
  END LOOP;
END $$;

-- Removes expired rows, up to 5,000 of each table per call. An index of what ends at some time is used only by a query that
-- repeats its condition. The keys of tasks that still wait stay, so that of keys up to 5,000 are looked at, those that end
-- after a time; returns the time from which to go on.
CREATE FUNCTION sweep(since bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE last bigint := (SELECT until FROM posted WHERE until > since AND until <= ms() ORDER BY until OFFSET 4999 LIMIT 1);
BEGIN
  DELETE FROM job WHERE id = ANY (ARRAY(SELECT id FROM job WHERE until <= ms() AND until < ${NEVER}
    ORDER BY until LIMIT 5000 FOR UPDATE SKIP LOCKED));
  DELETE FROM entry WHERE key = ANY (ARRAY(SELECT key FROM entry WHERE until <= ms() AND until < ${NEVER}
    ORDER BY until LIMIT 5000 FOR UPDATE SKIP LOCKED));
  -- As a value each task is looked for by its number; as a join all tasks may be read.
  DELETE FROM posted WHERE key = ANY (ARRAY(SELECT key FROM posted WHERE until > since AND until <= coalesce(last, ms())
    AND (SELECT sequence FROM task WHERE task.sequence = posted.sequence) IS NULL FOR UPDATE SKIP LOCKED));
  RETURN coalesce(last, 0);
END $$;`

/** Name of the schema of a namespace. PostgreSQL limits names to 63 bytes, and channel names begin with this one. */
export const schemaOf = (namespace: string): string =>
  `callboard_${namespace.length <= 40 ? namespace : createHash("sha256").update(namespace).digest("hex").slice(0, 40)}`

/** Creates the schema unless it exists. Refuses one of another version, and a server that lacks what is needed. */
export const prepare = async ({ ask }: PostgresLink, schema: string): Promise<void> => {
  const [server] = await ask<{ fits: boolean }>(`SELECT current_setting('server_version_num')::int >= 130000
    AND current_setting('server_encoding') = 'UTF8' AND current_setting('fsync') = 'on' AS fits`)
  const needs = "needs PostgreSQL 13 or newer, a database in UTF8, and fsync = on"
  if (!server?.fits) throw new TransportError("unsupported", `postgres: ${needs}`)
  await ask("BEGIN")
  await ask("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [schema])
  const [made] = await ask<{ is: boolean }>("SELECT to_regclass($1) IS NOT NULL AS is", [`"${schema}".meta`])
  if (!made?.is) await ask(`CREATE SCHEMA IF NOT EXISTS "${schema}"; ${TABLES} ${FUNCTIONS}`)
  await ask("COMMIT")
  const [found] = await ask<{ version: number }>("SELECT version FROM meta")
  if (found?.version === VERSION) return
  const other = `schema "${schema}" has version ${found?.version}, but this Callboard supports version ${VERSION}`
  throw new TransportError(
    "unsupported",
    `postgres: ${other}: install a version that supports it, or use another namespace`,
  )
}
