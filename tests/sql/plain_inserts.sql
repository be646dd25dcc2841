-- INSERT whose rows a load takes from the plan, and everything for which it must not: triggers, constraints, generated columns, row security, partitions, indexes, RETURNING, ON CONFLICT, errors in the middle.
-- plain_inserts_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA inserts;
SET search_path = inserts, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
\set VERBOSITY default

-- Sources: heap pages of fixed width, with NULLs here and there, with columns added and dropped later, of every width.
CREATE TABLE fixed (id int, k int, x real) USING heap;
INSERT INTO fixed SELECT i, i % 10, i / 4.0 FROM generate_series(1, 5000) i;
CREATE TABLE holes (id int, k int, x real) USING heap;
INSERT INTO holes SELECT i, nullif(i % 7, 3), CASE WHEN i % 1000 < 990 THEN i END FROM generate_series(1, 5000) i;
CREATE TABLE widths (a bool, b "char", c int2, d int4, e int8, f float4, g float8, h uuid, i date, j timestamptz, k oid, l interval, m time, n name, o macaddr, p point, q xid8) USING heap;
INSERT INTO widths SELECT i % 3 = 0, chr(65 + i % 50)::"char", i % 300 - 150, -i, i * 10000000000, i / 8.0, -i / 3.0, md5(i::text)::uuid, '2000-01-01'::date + i, '2020-01-01 UTC'::timestamptz + i * interval '1 min', i, i * interval '1 day 2 h', '00:00'::time + i * interval '1 s', 'name ' || i, ('00:00:00:00:00:' || to_hex(i % 256))::macaddr, point(i, -i), i::text::xid8 FROM generate_series(1, 3000) i;
CREATE TABLE texts (id int, w text, n numeric, a int[]) USING heap;
INSERT INTO texts SELECT i, CASE WHEN i % 500 = 0 THEN repeat(md5(i::text), 400) ELSE 'w' || i % 90 END, i / 8.0, ARRAY[i, NULL, i % 5] FROM generate_series(1, 3000) i;

CREATE TABLE t (id int, k int, x real);
INSERT INTO t SELECT * FROM fixed;
SELECT dig('TABLE t');
SELECT (count(*) = 5000) = :cold AS cold FROM t WHERE ctid >= '(2147483648,0)';
INSERT INTO t SELECT * FROM holes;
INSERT INTO t SELECT id + 1, k, x * 2 FROM fixed WHERE k <> 4 ORDER BY x DESC;
INSERT INTO t SELECT id, k, x FROM fixed UNION ALL SELECT id, k, x FROM holes;
INSERT INTO t (x, id) SELECT x, id FROM fixed;
INSERT INTO t VALUES (1, 2, 3), (4, NULL, 6);
SELECT dig('TABLE t');
-- A table into itself.
INSERT INTO t SELECT * FROM t;
SELECT dig('TABLE t');
CREATE TABLE w (LIKE widths);
INSERT INTO w SELECT * FROM widths;
INSERT INTO w SELECT * FROM widths ORDER BY d;
SELECT dig('TABLE w');
CREATE TABLE txt (LIKE texts);
INSERT INTO txt SELECT * FROM texts;
INSERT INTO txt SELECT id, w || '!', n * 2, a || 7 FROM texts;
INSERT INTO txt SELECT t.* FROM texts t JOIN fixed USING (id);
SELECT dig('TABLE txt');

-- Columns added, dropped and of other types on either side.
CREATE TABLE grown (id int, k int) USING heap;
INSERT INTO grown SELECT i, -i FROM generate_series(1, 2000) i;
ALTER TABLE grown ADD x real DEFAULT 7.5;
INSERT INTO grown SELECT i, -i, 1 FROM generate_series(2001, 4000) i;
TRUNCATE t;
INSERT INTO t SELECT * FROM grown;
SELECT dig('TABLE t');
CREATE TABLE shrunk (id int, gone bigint, k int, x real) USING heap;
INSERT INTO shrunk SELECT i, i, i, i FROM generate_series(1, 2000) i;
ALTER TABLE shrunk DROP gone;
INSERT INTO t SELECT * FROM shrunk;
CREATE TABLE less (id int, gone bigint, k int, x real);
ALTER TABLE less DROP gone;
INSERT INTO less SELECT * FROM fixed;
INSERT INTO less SELECT * FROM shrunk;
SELECT dig('TABLE t'), dig('TABLE less');
INSERT INTO t SELECT id, k::int2, x::float8 FROM fixed;
INSERT INTO t SELECT k, id, x FROM fixed;
SELECT dig('TABLE t');
CREATE TABLE big (id bigint, k int, x float8);
INSERT INTO big SELECT * FROM fixed;
SELECT dig('TABLE big');

-- Rows that are not visible, and rows of this transaction.
BEGIN;
DELETE FROM fixed WHERE id % 5 = 0;
UPDATE fixed SET k = -k WHERE id % 7 = 0;
TRUNCATE t;
INSERT INTO t SELECT * FROM fixed;
SELECT dig('TABLE t');
SAVEPOINT s;
INSERT INTO t SELECT * FROM fixed;
ROLLBACK TO s;
INSERT INTO t SELECT * FROM holes;
SELECT dig('TABLE t');
ROLLBACK;
SELECT dig('TABLE t');

-- What the command reports.
DO $$ DECLARE n bigint; BEGIN INSERT INTO t SELECT * FROM fixed; GET DIAGNOSTICS n = ROW_COUNT; RAISE WARNING 'rows %', n; INSERT INTO t SELECT * FROM holes WHERE id > 3000; GET DIAGNOSTICS n = ROW_COUNT; RAISE WARNING 'rows %', n; END $$;
PREPARE ins AS INSERT INTO t SELECT * FROM fixed WHERE id > $1;
EXECUTE ins(100);
EXECUTE ins(4990);
\set QUIET off
INSERT INTO t SELECT * FROM fixed;
EXECUTE ins(1000);
\set QUIET on
EXPLAIN (COSTS OFF) INSERT INTO t SELECT * FROM fixed;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO t SELECT * FROM fixed;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO t SELECT * FROM holes WHERE id > 100;
CREATE FUNCTION analyzed(statement text) RETURNS SETOF text LANGUAGE plpgsql AS $$ DECLARE line text; BEGIN FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, SUMMARY OFF, BUFFERS OFF) ' || statement LOOP RETURN NEXT regexp_replace(line, 'time=\S+', 'time=_'); END LOOP; END $$;
SELECT analyzed('INSERT INTO t SELECT * FROM fixed');
SELECT analyzed('INSERT INTO t SELECT id, k, x FROM holes ORDER BY id LIMIT 3000');
SELECT dig('TABLE t');

-- Statistics: what was counted before is reported first.
CREATE FUNCTION counts(t regclass) RETURNS text LANGUAGE sql AS 'SELECT format(''%s inserted, %s scanned, %s fetched'', pg_stat_get_xact_tuples_inserted(t), pg_stat_get_xact_numscans(t), pg_stat_get_xact_tuples_returned(t))';
SELECT pg_stat_force_next_flush();
BEGIN;
INSERT INTO t SELECT * FROM fixed;
SELECT counts('t'), counts('fixed');
SAVEPOINT s;
INSERT INTO t SELECT * FROM holes;
SELECT counts('t'), counts('holes');
ROLLBACK TO s;
SELECT counts('t'), counts('holes');
COMMIT;

-- Functions that read and change the target while it is filled.
CREATE TABLE log (what text, n bigint);
CREATE FUNCTION peek(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i % 900 = 0 THEN INSERT INTO log SELECT 'peek ' || i, count(*) FROM t; END IF; IF i % 1000 = 0 THEN INSERT INTO t SELECT -g, 0, 0 FROM generate_series(1, 400) g; END IF; RETURN i; END $$;
TRUNCATE t;
INSERT INTO t SELECT peek(id), k, x FROM fixed;
SELECT dig('TABLE t'), dig('TABLE log');
CREATE FUNCTION breaks(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i % 1700 = 0 THEN BEGIN INSERT INTO t SELECT -g, 1, 1 FROM generate_series(1, 500) g; RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN INSERT INTO t SELECT -g, 2, 2 FROM generate_series(1, 350) g; END; END IF; RETURN i; END $$;
INSERT INTO t SELECT breaks(id), k, x FROM fixed;
SELECT dig('TABLE t');
CREATE FUNCTION empties(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i = 2500 THEN TRUNCATE t; END IF; RETURN i; END $$;
INSERT INTO t SELECT empties(id), k, x FROM fixed;
CREATE FUNCTION alters(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i = 2500 THEN ALTER TABLE t ADD CHECK (id > 0) NOT VALID; END IF; RETURN i; END $$;
INSERT INTO t SELECT alters(id), k, x FROM fixed;
CREATE FUNCTION indexes(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i = 2500 THEN CREATE INDEX ON t (id); END IF; RETURN i; END $$;
INSERT INTO t SELECT indexes(id), k, x FROM fixed;
CREATE FUNCTION other(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i % 1000 = 0 THEN PERFORM set_config('howdah.bulk_load', CASE WHEN i % 2000 = 0 THEN 'on' ELSE 'off' END, true); END IF; RETURN i; END $$;
INSERT INTO t SELECT other(id), k, x FROM fixed;
RESET howdah.bulk_load;
SELECT dig('TABLE t');
-- A cursor, and a function that inserts, in the middle of it.
BEGIN;
DECLARE c CURSOR FOR SELECT id, breaks(id) FROM fixed;
FETCH 2 FROM c;
INSERT INTO t SELECT * FROM fixed;
MOVE 2000 FROM c;
FETCH 1 FROM c;
INSERT INTO t SELECT * FROM t;
COMMIT;
SELECT dig('TABLE t');

-- WITH that changes the same table and others.
TRUNCATE t;
WITH a AS (INSERT INTO t SELECT * FROM fixed RETURNING id) INSERT INTO t SELECT -id, 0, 0 FROM a;
WITH a AS (INSERT INTO t SELECT * FROM fixed), b AS (DELETE FROM t WHERE id < 100 RETURNING *) INSERT INTO t SELECT * FROM holes;
WITH a AS (INSERT INTO t SELECT * FROM fixed) SELECT count(*) FROM t;
WITH a AS (INSERT INTO log SELECT 'a', id FROM fixed RETURNING n) INSERT INTO t SELECT n, 1, 1 FROM a;
SELECT dig('TABLE t'), dig('TABLE log');

-- Errors in the middle.
INSERT INTO t SELECT id, 1 / (id - 4000), x FROM fixed;
INSERT INTO t SELECT id, (id::text || CASE WHEN id = 3500 THEN 'x' ELSE '' END)::int, x FROM fixed;
BEGIN;
SAVEPOINT s;
INSERT INTO t SELECT id, 1 / (id - 4000), x FROM fixed;
ROLLBACK TO s;
INSERT INTO t SELECT id, 1 / (id - 5001), x FROM fixed;
COMMIT;
SELECT dig('TABLE t');

-- Constraints.
CREATE TABLE strict (id int NOT NULL, k int, x real NOT NULL);
INSERT INTO strict SELECT * FROM fixed;
INSERT INTO strict SELECT * FROM holes;
INSERT INTO strict SELECT id, k, 1 FROM holes;
INSERT INTO strict SELECT NULLIF(id, 4321), k, x FROM fixed;
SELECT dig('TABLE strict');
CREATE TABLE checked (id int CHECK (id <> 4444), k int, x real);
INSERT INTO checked SELECT * FROM fixed;
INSERT INTO checked SELECT * FROM fixed WHERE id <> 4444;
SELECT dig('TABLE checked');
CREATE DOMAIN few AS int CHECK (VALUE < 4500);
CREATE TABLE domains (id few, k int, x real);
INSERT INTO domains SELECT * FROM fixed;
INSERT INTO domains SELECT * FROM fixed WHERE id < 4500;
SELECT dig('TABLE domains');
CREATE TABLE keyed (id int PRIMARY KEY, k int, x real);
INSERT INTO keyed SELECT * FROM fixed;
INSERT INTO keyed SELECT * FROM fixed ON CONFLICT DO NOTHING;
INSERT INTO keyed SELECT id + 2500, 77, x FROM fixed ON CONFLICT (id) DO UPDATE SET k = 99;
INSERT INTO keyed SELECT * FROM fixed;
SELECT dig('TABLE keyed');
INSERT INTO t SELECT * FROM fixed ON CONFLICT DO NOTHING;
CREATE TABLE child (id int REFERENCES keyed, k int, x real);
INSERT INTO child SELECT * FROM fixed;
INSERT INTO child SELECT id + 5000, k, x FROM fixed;
SELECT dig('TABLE child');
-- Defaults, identity, generated columns.
CREATE TABLE made (id int, k int DEFAULT 5, x real, s int GENERATED ALWAYS AS (id * 2) STORED, v int GENERATED ALWAYS AS (id + 1) VIRTUAL, i int GENERATED ALWAYS AS IDENTITY);
INSERT INTO made (id, x) SELECT id, x FROM fixed;
SELECT dig('TABLE made');
CREATE TABLE virtual (id int, k int, x real, v int GENERATED ALWAYS AS (id - 5000) VIRTUAL NOT NULL);
INSERT INTO virtual SELECT * FROM fixed;
INSERT INTO virtual SELECT nullif(id, 4800), k, x FROM fixed;
SELECT dig('TABLE virtual');
CREATE TABLE numbered (id serial, k int, at int DEFAULT 3);
INSERT INTO numbered (k) SELECT k FROM fixed;
SELECT dig('TABLE numbered');

-- Triggers.
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log SELECT TG_WHEN || ' ' || TG_LEVEL, count(*) FROM trig; IF TG_LEVEL = 'ROW' AND new.id % 10 = 0 THEN RETURN NULL; END IF; RETURN new; END $$;
CREATE TABLE trig (id int, k int, x real);
CREATE TRIGGER a BEFORE INSERT ON trig EXECUTE FUNCTION note();
CREATE TRIGGER b AFTER INSERT ON trig EXECUTE FUNCTION note();
TRUNCATE log;
INSERT INTO trig SELECT * FROM fixed;
INSERT INTO trig SELECT * FROM fixed;
TABLE log;
CREATE TRIGGER c BEFORE INSERT ON trig FOR EACH ROW WHEN (new.id % 500 = 0) EXECUTE FUNCTION note();
INSERT INTO trig SELECT * FROM fixed;
DROP TRIGGER c ON trig;
CREATE TRIGGER d AFTER INSERT ON trig FOR EACH ROW WHEN (new.id % 700 = 0) EXECUTE FUNCTION note();
INSERT INTO trig SELECT * FROM fixed;
DROP TRIGGER d ON trig;
CREATE FUNCTION total() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log SELECT 'new rows', count(*) FROM added; RETURN NULL; END $$;
CREATE TRIGGER e AFTER INSERT ON trig REFERENCING NEW TABLE AS added EXECUTE FUNCTION total();
INSERT INTO trig SELECT * FROM fixed;
SELECT dig('TABLE log'), dig('TABLE trig');
CREATE FUNCTION adds_trigger(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i = 2000 THEN CREATE TRIGGER late BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION note(); END IF; RETURN i; END $$;
INSERT INTO t SELECT adds_trigger(id), k, x FROM fixed;
DROP TRIGGER IF EXISTS late ON t;
SELECT dig('TABLE t');

-- Rules, views, RETURNING, MERGE.
CREATE VIEW low AS SELECT * FROM t WHERE k < 9 WITH CHECK OPTION;
INSERT INTO low SELECT * FROM fixed;
INSERT INTO low SELECT * FROM fixed WHERE k < 9;
CREATE VIEW any_row AS SELECT * FROM t;
INSERT INTO any_row SELECT * FROM fixed;
CREATE TABLE ruled (LIKE t);
CREATE RULE also AS ON INSERT TO ruled DO ALSO INSERT INTO log VALUES ('rule', new.id);
INSERT INTO ruled SELECT * FROM fixed;
WITH r AS (INSERT INTO t SELECT * FROM fixed RETURNING id, k, tableoid::regclass) SELECT count(*), sum(id), min(tableoid::text) FROM r;
MERGE INTO t USING fixed f ON t.id = -f.id - 100000 WHEN NOT MATCHED THEN INSERT VALUES (f.id, f.k, f.x);
SELECT dig('TABLE t'), dig('TABLE ruled'), dig('TABLE log');

-- Row-level security.
CREATE TABLE secured (id int, k int, x real);
ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON secured USING (true) WITH CHECK (id <> 4000);
CREATE ROLE regress_inserter;
GRANT USAGE ON SCHEMA inserts TO regress_inserter;
GRANT ALL ON secured, fixed TO regress_inserter;
SET ROLE regress_inserter;
INSERT INTO secured SELECT * FROM fixed;
INSERT INTO secured SELECT * FROM fixed WHERE id <> 4000;
INSERT INTO t SELECT * FROM fixed;
RESET ROLE;
SELECT dig('TABLE secured');
DROP OWNED BY regress_inserter;
DROP ROLE regress_inserter;

-- Partitions, and tables that inherit.
CREATE TABLE parted (id int, k int, x real) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (1) TO (2501);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (2501) TO (5001);
INSERT INTO parted SELECT * FROM fixed;
INSERT INTO parted_1 SELECT * FROM fixed WHERE id < 2501;
INSERT INTO parted_1 SELECT * FROM fixed;
INSERT INTO t SELECT * FROM parted;
CREATE TABLE parent (id int, k int, x real);
CREATE TABLE heir () INHERITS (parent);
INSERT INTO parent SELECT * FROM fixed;
INSERT INTO heir SELECT * FROM fixed;
INSERT INTO heir SELECT * FROM parent;
SELECT dig('TABLE parted'), dig('TABLE t'), dig('TABLE parent'), dig('TABLE heir');

-- Temporary and unlogged tables, other isolation levels, new files.
CREATE TEMP TABLE tmp (id int, k int, x real);
INSERT INTO tmp SELECT * FROM fixed;
CREATE UNLOGGED TABLE unl (id int, k int, x real);
INSERT INTO unl SELECT * FROM fixed;
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO tmp SELECT * FROM fixed;
INSERT INTO unl SELECT * FROM fixed;
INSERT INTO t SELECT * FROM unl;
COMMIT;
BEGIN;
TRUNCATE unl;
INSERT INTO unl SELECT * FROM fixed;
ALTER TABLE unl ALTER id TYPE bigint;
INSERT INTO unl SELECT * FROM fixed;
COMMIT;
CREATE TABLE made_of AS SELECT * FROM fixed;
CREATE MATERIALIZED VIEW seen AS SELECT * FROM fixed;
REFRESH MATERIALIZED VIEW seen;
SELECT dig('TABLE tmp'), dig('TABLE unl'), dig('TABLE t'), dig('TABLE made_of'), dig('TABLE seen');

DROP SCHEMA inserts CASCADE;
