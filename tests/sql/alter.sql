-- ALTER TABLE over both sides, compared with a heap table that went through the same.
CREATE SCHEMA alter_table;
SET search_path = alter_table, public;
SET howdah.load_threshold = 100;
\getenv directory PG_ABS_SRCDIR
\set compare :directory '/sql/compare.psql'
\i :compare
-- Runs a statement on both tables; @ stands for the name. Says how many rows differ, how many
-- are cold, and whether the howdah table was rewritten.
CREATE FUNCTION pair(statement text) RETURNS TABLE (different bigint, cold bigint, rewritten boolean) LANGUAGE plpgsql AS $$
DECLARE before oid := pg_relation_filenode('t_howdah');
BEGIN
    EXECUTE replace(statement, '@', 't_heap');
    EXECUTE replace(statement, '@', 't_howdah');
    RETURN QUERY SELECT differences('t_heap', 't_howdah'), cold('t_howdah'), pg_relation_filenode('t_howdah') <> before;
END $$;
CREATE TABLE t_heap (id int, word text, price numeric(10, 2), day date) USING heap;
CREATE TABLE t_howdah (LIKE t_heap) USING howdah;
SELECT * FROM pair($$INSERT INTO @ SELECT i, 'word ' || i % 13, i / 7.0, '2026-01-01'::date + i % 90 FROM generate_series(1, 2000) i$$);

-- ADD COLUMN: nothing is rewritten; old row groups lack the column.
SELECT * FROM pair('ALTER TABLE @ ADD COLUMN plain int');
SELECT * FROM pair($$ALTER TABLE @ ADD COLUMN fast text DEFAULT 'was added'$$);
SELECT * FROM pair($$INSERT INTO @ (id, fast) SELECT i, 'given ' || i FROM generate_series(2001, 3000) i$$);
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN fast SET DEFAULT NULL');
SELECT * FROM pair($$INSERT INTO @ (id) SELECT i FROM generate_series(3001, 3500) i$$);
SELECT fast, count(*) FROM t_howdah WHERE fast IS NULL OR fast = 'was added' GROUP BY fast ORDER BY fast;
SELECT * FROM pair('ALTER TABLE @ ADD COLUMN drawn float8 DEFAULT 0.5 NOT NULL');
SELECT * FROM pair('ALTER TABLE @ ADD COLUMN virtual int GENERATED ALWAYS AS (id + 1) VIRTUAL');
SELECT * FROM pair('ALTER TABLE @ ADD COLUMN computed int GENERATED ALWAYS AS (id * 2) STORED');
SELECT sum(computed), sum(virtual) FROM t_howdah;
-- Rows are numbered in the order of their places, which differs from heap's.
ALTER TABLE t_howdah ADD COLUMN numbered int GENERATED ALWAYS AS IDENTITY;
SELECT count(DISTINCT numbered), min(numbered), max(numbered) FROM t_howdah;
ALTER TABLE t_howdah DROP COLUMN numbered;

-- DROP COLUMN, and the name again.
SELECT * FROM pair('ALTER TABLE @ DROP COLUMN word');
SELECT * FROM pair('ALTER TABLE @ ADD COLUMN word int');
SELECT count(word), count(*) FROM t_howdah;
SELECT * FROM pair($$INSERT INTO @ (id, word) SELECT i, i FROM generate_series(4001, 4500) i$$);
SELECT * FROM pair('ALTER TABLE @ DROP COLUMN computed, DROP COLUMN virtual');

-- Types: binary-compatible without a rewrite, others with one.
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN fast TYPE varchar(100)');
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN fast TYPE varchar(200)');
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN fast TYPE text');
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN price TYPE numeric(12, 2)');
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN price TYPE numeric');
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN word TYPE oid USING word::oid');
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN word TYPE int USING word::int');
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN id TYPE bigint');
SELECT * FROM pair($$ALTER TABLE @ ALTER COLUMN day TYPE text USING to_char(day, 'YYYY-MM')$$);
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN id TYPE smallint');
CREATE DOMAIN short AS smallint CHECK (value < 5000);
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN id TYPE short');

-- Constraints are checked over both sides.
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN id SET NOT NULL');
ALTER TABLE t_howdah ALTER COLUMN word SET NOT NULL;
ALTER TABLE t_howdah ADD CHECK (id < 4400);
ALTER TABLE t_howdah ADD CONSTRAINT later CHECK (id < 4400) NOT VALID;
ALTER TABLE t_howdah VALIDATE CONSTRAINT later;
ALTER TABLE t_howdah DROP CONSTRAINT later;
SELECT * FROM pair('ALTER TABLE @ ADD CHECK (id < 4600)');
SELECT * FROM pair('ALTER TABLE @ ADD PRIMARY KEY (id)');
ALTER TABLE t_howdah ADD UNIQUE (day);
ALTER TABLE t_howdah ADD EXCLUDE USING btree (day WITH =);
CREATE TABLE parent (id smallint PRIMARY KEY) USING howdah;
INSERT INTO parent SELECT generate_series(1, 4499);
ALTER TABLE t_howdah ADD FOREIGN KEY (id) REFERENCES parent;
INSERT INTO parent VALUES (4500);
ALTER TABLE t_howdah ADD FOREIGN KEY (id) REFERENCES parent;
INSERT INTO parent SELECT generate_series(4501, 4550);
SELECT * FROM pair('INSERT INTO @ (id) SELECT generate_series(4501, 4550)');
-- New rows refer to a cold row, one by one and in bulk.
INSERT INTO t_howdah (id) VALUES (-1);
UPDATE t_howdah SET id = 4550 WHERE id = 4550;
CREATE TABLE cold_parent (id int PRIMARY KEY) USING howdah;
INSERT INTO cold_parent SELECT generate_series(1, 500);
CREATE TABLE child (id int REFERENCES cold_parent) USING howdah;
INSERT INTO child VALUES (1);
INSERT INTO child VALUES (500);
INSERT INTO child SELECT generate_series(1, 500);
SELECT count(*) FROM child;
SELECT * FROM pair('ALTER TABLE @ DROP CONSTRAINT IF EXISTS t_howdah_id_fkey');

-- Names, schemas, owners, storage, statistics.
SELECT * FROM pair('ALTER TABLE @ RENAME COLUMN fast TO quick');
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN quick SET STORAGE EXTERNAL');
SELECT * FROM pair('ALTER TABLE @ ALTER COLUMN quick SET STATISTICS 1000');
SELECT * FROM pair('ALTER TABLE @ SET (fillfactor = 70)');
CREATE SCHEMA elsewhere;
ALTER TABLE t_howdah SET SCHEMA elsewhere;
SELECT count(*), sum(id) FROM elsewhere.t_howdah;
ALTER TABLE elsewhere.t_howdah SET SCHEMA alter_table;

-- Rewrites: persistence, access method, CLUSTER, VACUUM FULL, tablespace.
SELECT * FROM pair('ALTER TABLE @ SET UNLOGGED');
SELECT * FROM pair('ALTER TABLE @ SET LOGGED');
ALTER TABLE t_howdah SET ACCESS METHOD heap;
SELECT differences('t_heap', 't_howdah');
ALTER TABLE t_howdah SET ACCESS METHOD howdah;
SELECT differences('t_heap', 't_howdah'), cold('t_howdah');
SELECT * FROM pair('CLUSTER @ USING @_pkey');
VACUUM FULL t_howdah;
SELECT differences('t_heap', 't_howdah'), cold('t_howdah');
ALTER TABLE t_howdah SET TABLESPACE pg_default;
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE howdah_alter LOCATION '';
ALTER TABLE t_howdah SET TABLESPACE howdah_alter;
SELECT differences('t_heap', 't_howdah'), cold('t_howdah');
ALTER TABLE t_howdah SET TABLESPACE pg_default;
DROP TABLESPACE howdah_alter;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM t_howdah WHERE id BETWEEN 50 AND 3100;
RESET enable_seqscan;

-- In one transaction with loads before and after, and rolled back.
BEGIN;
INSERT INTO t_howdah (id) SELECT generate_series(-500, -1);
ALTER TABLE t_howdah ADD COLUMN more int DEFAULT 7;
INSERT INTO t_howdah (id) SELECT generate_series(-1000, -501);
ALTER TABLE t_howdah ALTER COLUMN quick TYPE varchar(7) USING left(quick, 7);
SELECT count(*), sum(more), max(length(quick)) FROM t_howdah;
ROLLBACK;
SELECT differences('t_heap', 't_howdah'), cold('t_howdah');

-- A column that old row groups lack, and a rewrite for the sake of another column: the rewrite
-- reads with the descriptor from before, which alone knows the missing values.
CREATE TABLE r_heap (id int, amount int, word text) USING heap;
CREATE TABLE r_howdah (LIKE r_heap) USING howdah;
-- As pair(), for these tables.
CREATE FUNCTION rewrite_pair(statement text) RETURNS TABLE (different bigint, cold bigint, rewritten boolean) LANGUAGE plpgsql AS $$
DECLARE before oid := pg_relation_filenode('r_howdah');
BEGIN
    EXECUTE replace(statement, '@', 'r_heap');
    EXECUTE replace(statement, '@', 'r_howdah');
    RETURN QUERY SELECT differences('r_heap', 'r_howdah'), cold('r_howdah'), pg_relation_filenode('r_howdah') <> before;
END $$;
SELECT * FROM rewrite_pair($$INSERT INTO @ SELECT i, i * 3, 'word ' || i FROM generate_series(1, 1000) i$$);
SELECT * FROM rewrite_pair($$ALTER TABLE @ ADD COLUMN m1 text DEFAULT 'missing', ADD COLUMN m2 int DEFAULT 42, ADD COLUMN m3 timestamptz DEFAULT '2026-05-05', ADD COLUMN m4 int[] DEFAULT '{1,2}'$$);
SELECT * FROM rewrite_pair('ALTER TABLE @ ALTER COLUMN m2 SET DEFAULT 43');
SELECT * FROM rewrite_pair($$INSERT INTO @ (id) SELECT i FROM generate_series(1001, 1300) i$$);
SELECT * FROM rewrite_pair('ALTER TABLE @ ALTER COLUMN amount TYPE bigint');
SELECT m1, m2, m3, m4, count(*) FROM r_howdah GROUP BY 1, 2, 3, 4 ORDER BY 2;
SELECT * FROM rewrite_pair($$ALTER TABLE @ ADD COLUMN n1 numeric(8, 3) DEFAULT 1.5$$);
SELECT * FROM rewrite_pair('ALTER TABLE @ ALTER COLUMN amount TYPE text');
SELECT * FROM rewrite_pair('ALTER TABLE @ ALTER COLUMN amount TYPE int USING amount::int, ALTER COLUMN n1 TYPE text, ADD COLUMN n2 int DEFAULT 9, DROP COLUMN word');
SELECT * FROM rewrite_pair('ALTER TABLE @ ALTER COLUMN m2 TYPE text USING m2 || m1');
SELECT * FROM rewrite_pair('ALTER TABLE @ ADD COLUMN word int DEFAULT 3, ALTER COLUMN n1 TYPE float8 USING n1::float8');
SELECT n1, n2, word, m2, count(*) FROM r_howdah GROUP BY 1, 2, 3, 4 ORDER BY 4;
-- Several in one transaction, with rows of the same transaction between them.
BEGIN;
SELECT * FROM rewrite_pair('ALTER TABLE @ ADD COLUMN t1 int DEFAULT 1');
SELECT * FROM rewrite_pair($$INSERT INTO @ (id, t1) SELECT i, 2 FROM generate_series(2001, 2300) i$$);
SELECT * FROM rewrite_pair('ALTER TABLE @ ALTER COLUMN id TYPE bigint');
SELECT * FROM rewrite_pair($$ALTER TABLE @ ADD COLUMN t2 text DEFAULT 'second'$$);
SELECT * FROM rewrite_pair('ALTER TABLE @ ALTER COLUMN t1 TYPE text');
SAVEPOINT s;
SELECT * FROM rewrite_pair('ALTER TABLE @ ADD COLUMN t3 int DEFAULT 3, ALTER COLUMN t2 TYPE varchar(3) USING left(t2, 3)');
ROLLBACK TO s;
SELECT * FROM rewrite_pair('ALTER TABLE @ ALTER COLUMN id TYPE text, DROP COLUMN amount');
SELECT * FROM rewrite_pair('ALTER TABLE @ ADD COLUMN amount int DEFAULT -1');
COMMIT;
SELECT differences('r_heap', 'r_howdah'), cold('r_howdah');
SELECT t1, t2, amount, count(*), min(length(id)) FROM r_howdah GROUP BY 1, 2, 3 ORDER BY 1;
-- The same columns by the other rewrites and by compaction.
SELECT * FROM rewrite_pair('ALTER TABLE @ ADD COLUMN last int DEFAULT 77');
VACUUM FULL r_howdah;
SELECT differences('r_heap', 'r_howdah'), cold('r_howdah');
SELECT * FROM rewrite_pair('ALTER TABLE @ SET UNLOGGED');
SELECT * FROM rewrite_pair('ALTER TABLE @ ADD COLUMN very_last int DEFAULT 78');
CALL howdah.compact('r_howdah');
SELECT differences('r_heap', 'r_howdah'), cold('r_howdah');
SELECT * FROM rewrite_pair('ALTER TABLE @ ALTER COLUMN very_last TYPE text, ALTER COLUMN last TYPE bigint');
ALTER TABLE r_howdah SET ACCESS METHOD heap;
SELECT differences('r_heap', 'r_howdah');

-- Columns that come between two loads of one transaction, again and again.
CREATE TABLE wide_heap (id int) USING heap;
CREATE TABLE wide_howdah (id int) USING howdah;
DO $$
DECLARE t text;
BEGIN
    FOREACH t IN ARRAY ARRAY['wide_heap', 'wide_howdah'] LOOP
        FOR n IN 1..20 LOOP
            EXECUTE format('INSERT INTO %I SELECT i%s FROM generate_series(1, 300) i', t, repeat(', i', n - 1));
            EXECUTE format('ALTER TABLE %I ADD COLUMN c%s smallint', t, n);
            EXECUTE format('INSERT INTO %I SELECT i%s FROM generate_series(301, 600) i', t, repeat(', i', n));
        END LOOP;
    END LOOP;
END $$;
SELECT differences('wide_heap', 'wide_howdah'), cold('wide_howdah');

-- Inherited columns and partitions.
CREATE TABLE top (id int) USING howdah;
CREATE TABLE below () INHERITS (top) USING howdah;
INSERT INTO below SELECT generate_series(1, 500);
ALTER TABLE top ADD COLUMN added text DEFAULT 'x';
SELECT count(*), count(added), sum(id) FROM top;
ALTER TABLE below NO INHERIT top;
SELECT count(*) FROM top;
CREATE TABLE whole (id int) PARTITION BY RANGE (id);
CREATE TABLE piece (id int) USING howdah;
INSERT INTO piece SELECT generate_series(1, 500);
ALTER TABLE whole ATTACH PARTITION piece FOR VALUES FROM (1) TO (500);
ALTER TABLE whole ATTACH PARTITION piece FOR VALUES FROM (1) TO (501);
ALTER TABLE whole ADD COLUMN added int DEFAULT 5;
SELECT count(*), sum(added) FROM whole;

-- Row security, rules, event triggers leave cold rows to the same policies as hot ones.
CREATE ROLE howdah_reader;
GRANT USAGE ON SCHEMA alter_table TO howdah_reader;
GRANT SELECT ON t_howdah, t_heap TO howdah_reader;
SELECT * FROM pair('ALTER TABLE @ ENABLE ROW LEVEL SECURITY');
SELECT * FROM pair('CREATE POLICY low ON @ USING (id < 1000)');
SET ROLE howdah_reader;
SELECT count(*), sum(id) FROM t_howdah;
SELECT count(*), sum(id) FROM t_heap;
RESET ROLE;

SET client_min_messages = warning;
DROP SCHEMA alter_table CASCADE;
DROP SCHEMA elsewhere CASCADE;
DROP ROLE howdah_reader;
