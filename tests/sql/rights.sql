-- What a role may not see or do, it does not learn or do by way of cold rows.
CREATE SCHEMA rights;
SET search_path = rights, public;
SET howdah.load_threshold = 100;
CREATE ROLE howdah_reader;
GRANT USAGE ON SCHEMA rights TO howdah_reader;
-- Conditions that are not leakproof come after those of row security: nothing tells how many hidden rows pass them.
CREATE TABLE secrets (emp text, n numeric, t text) USING howdah;
INSERT INTO secrets SELECT 'e' || i, 1000 + (i * 7919) % 123457, 'secret' || i FROM generate_series(1, 3000) i;
SET howdah.load_threshold = 8192;
INSERT INTO secrets VALUES ('howdah_reader', 1500, 'mine');
ANALYZE secrets;
ALTER TABLE secrets ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secrets USING (emp = current_user);
GRANT SELECT ON secrets TO howdah_reader;
SET ROLE howdah_reader;
SET howdah.debug_force_vectorized = on;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT count(*) FROM secrets WHERE n > 100000;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT count(*) FROM secrets WHERE n > 200000;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT count(*) FROM secrets WHERE emp = 'e77' AND t LIKE 'secret7%';
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*) FROM secrets WHERE n > 200000;
SELECT count(*), max(t) FROM secrets WHERE n > 100;
-- The policy alone is the engine's.
EXPLAIN (COSTS OFF) SELECT count(*) FROM secrets;
SELECT count(*), max(t) FROM secrets;
RESET ROLE;
RESET howdah.debug_force_vectorized;
-- Rights to functions that are built in.
SET howdah.load_threshold = 100;
CREATE TABLE m (id int, k int) USING howdah;
INSERT INTO m SELECT i, i % 5 FROM generate_series(1, 20000) i;
ANALYZE m;
GRANT SELECT ON m TO howdah_reader;
BEGIN;
REVOKE EXECUTE ON FUNCTION sum(int) FROM public;
REVOKE EXECUTE ON FUNCTION int4mod(int, int) FROM public;
SET LOCAL ROLE howdah_reader;
SET LOCAL howdah.debug_force_vectorized = on;
SAVEPOINT s;
SELECT sum(k) FROM m;
ROLLBACK TO s;
SELECT max(k % 3) FROM m;
ROLLBACK;
BEGIN;
REVOKE EXECUTE ON FUNCTION int4eq(int, int) FROM public;
SET LOCAL ROLE howdah_reader;
SET LOCAL howdah.debug_force_vectorized = on;
SELECT k, count(*) FROM m GROUP BY k;
ROLLBACK;
-- A plan made before the right was taken away asks for it when it is run.
BEGIN;
SET LOCAL howdah.debug_force_vectorized = on;
SET LOCAL ROLE howdah_reader;
PREPARE counts AS SELECT k, count(*) FROM m GROUP BY k ORDER BY k LIMIT 1;
EXECUTE counts;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION int4eq(int, int), hashint4(int) FROM public;
SET LOCAL ROLE howdah_reader;
EXECUTE counts;
ROLLBACK;
DEALLOCATE counts;
-- A cursor's functions may be called with the rights of the role that declared it, whichever fetches from it.
CREATE FUNCTION hidden(int) RETURNS int STABLE LANGUAGE plpgsql AS 'BEGIN RETURN $1 + 1; END';
REVOKE EXECUTE ON FUNCTION hidden FROM public;
CREATE FUNCTION opened(query text) RETURNS refcursor SECURITY DEFINER LANGUAGE plpgsql AS
    $$ DECLARE c refcursor; BEGIN OPEN c FOR EXECUTE query; RETURN c; END $$;
BEGIN;
SET LOCAL howdah.debug_force_vectorized = on;
SET LOCAL ROLE howdah_reader;
SELECT opened('SELECT max(hidden(k)) FROM m') AS computed \gset
SELECT opened('SELECT max(k) FROM m WHERE id < hidden(7)') AS compared \gset
SELECT opened('SELECT id FROM m WHERE id < hidden(1)') AS scanned \gset
FETCH FROM :"computed";
FETCH FROM :"compared";
FETCH FROM :"scanned";
SELECT max(hidden(k)) FROM m;
ROLLBACK;
-- The views hold no lock on a table or its cold store.
BEGIN;
SELECT cold_rows, row_groups FROM howdah.table_sizes('m');
SELECT count(*) FROM howdah.table_row_groups('m');
SELECT count(*) FROM howdah.table_column_chunks('m');
SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE l.pid = pg_backend_pid()
    AND (c.relname = 'm' OR c.oid = (SELECT reltoastrelid FROM pg_class WHERE oid = 'm'::regclass));
COMMIT;
SELECT * FROM howdah.table_row_groups(999999::oid);
SET client_min_messages = warning;
DROP SCHEMA rights CASCADE;
DROP OWNED BY howdah_reader;
DROP ROLE howdah_reader;
