-- The views over tables, row groups and column chunks; what a role sees in them; sizes.
CREATE SCHEMA views;
SET search_path = views, public;
SET howdah.vectorized = off;
SET howdah.load_threshold = 1000;
CREATE TABLE t (id int, word text, price numeric(8, 2), day date, doc jsonb, secret int) USING howdah;
-- A table of hot rows only.
INSERT INTO t SELECT i FROM generate_series(1, 500) i;
SELECT hot_rows_estimate > 0 AS hot, cold_rows, row_groups, hot_bytes > 0 AS hot_bytes, cold_bytes, compression_ratio
    FROM howdah.tables WHERE relation = 't'::regclass;
SELECT count(*) FROM howdah.row_groups WHERE relation = 't'::regclass;
-- Hot and cold.
INSERT INTO t SELECT i, 'word ' || i % 100, i / 4.0, '2026-01-01'::date + i / 10000, jsonb_build_object('i', i), -i FROM generate_series(1, 1000) i;
INSERT INTO t SELECT i, 'word ' || i % 100, i / 4.0, '2026-01-01'::date + i / 10000, jsonb_build_object('i', i), -i FROM generate_series(1001, 200000) i;
INSERT INTO t SELECT i, NULL, NULL, NULL, NULL, NULL FROM generate_series(200001, 201000) i;
INSERT INTO t SELECT i, NULL, NULL, NULL, NULL, NULL FROM generate_series(201001, 205000) i;
-- What was counted so far is reported before ANALYZE replaces it, not after.
SELECT pg_stat_force_next_flush();
ANALYZE t;
SELECT schema_name, table_name, abs(hot_rows_estimate - 2500) < 500 AS hot, cold_rows, row_groups,
       cold_bytes < total_bytes AS within_total, compression_ratio > 2 AS compressed
    FROM howdah.tables WHERE relation = 't'::regclass;
SELECT relation, row_group, first_row, row_count, column_count, footer_bytes > 0 AS footer, raw_bytes > body_bytes AS smaller
    FROM howdah.row_groups WHERE relation = 't'::regclass ORDER BY row_group;
SELECT row_group, attnum, column_name, type, encoding <> '' AS encoded, bytes <= raw_bytes AS smaller, null_count,
       CASE WHEN column_name <> 'doc' THEN round(distinct_estimate, -4) END AS about_distinct, min, max
    FROM howdah.column_chunks WHERE relation = 't'::regclass ORDER BY row_group, attnum;
-- The views agree with each other and with the table.
SELECT (SELECT sum(row_count) FROM howdah.row_groups WHERE relation = 't'::regclass) = cold_rows AS rows,
       (SELECT sum(footer_bytes + body_bytes) FROM howdah.row_groups WHERE relation = 't'::regclass) = cold_bytes AS bytes,
       (SELECT sum(raw_bytes) FROM howdah.column_chunks WHERE relation = 't'::regclass) = (SELECT sum(raw_bytes) FROM howdah.row_groups WHERE relation = 't'::regclass) AS raw,
       (SELECT count(*) FROM t WHERE ctid >= '(2147483648,0)') = cold_rows AS ctids
    FROM howdah.tables WHERE relation = 't'::regclass;
-- Columns that came or went later.
ALTER TABLE t DROP COLUMN doc, ADD COLUMN later int DEFAULT 5;
SELECT DISTINCT column_name FROM howdah.column_chunks WHERE relation = 't'::regclass ORDER BY 1;

-- Extremes in the type's own spelling.
CREATE TABLE e (b bool, f float8, n numeric, ts timestamptz, u uuid, by bytea, c char(3), a int[], e1 "char") USING howdah;
SET howdah.load_threshold = 0;
INSERT INTO e VALUES (true, 'NaN', 'NaN', 'infinity', '00000000-0000-0000-0000-000000000001', '\x00ff', 'a', '{1}', 'x'),
    (false, '-Infinity', 1.10, '2026-01-01 00:00 UTC', 'ffffffff-0000-0000-0000-000000000001', '\x01', 'b', '{2}', 'y'), (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT column_name, null_count, distinct_estimate, min, max FROM howdah.column_chunks WHERE relation = 'e'::regclass ORDER BY attnum;

-- The views show what core shows in the like case: nothing of a value, nor of how long it is, nor how many there are,
-- to a role that could not select it.
CREATE ROLE howdah_curious;
GRANT USAGE ON SCHEMA views TO howdah_curious;
CREATE TABLE one_secret (id int, secret text) USING howdah;
SET howdah.load_threshold = 0;
INSERT INTO one_secret VALUES (1, repeat('x', 1234));
CREATE VIEW shown AS
    SELECT hot_rows_estimate IS NOT NULL AS hot_rows, cold_rows, row_groups, hot_bytes, cold_bytes > 0 AS cold_bytes,
           total_bytes > 0 AS total_bytes, compression_ratio > 0 AS ratio
    FROM howdah.tables WHERE relation = 'views.one_secret'::regclass;
CREATE VIEW shown_groups AS
    SELECT row_count, column_count, footer_bytes > 0 AS footer, body_bytes > 0 AS body, raw_bytes
    FROM howdah.row_groups WHERE relation = 'views.one_secret'::regclass;
CREATE VIEW shown_chunks AS
    SELECT column_name, encoding <> '' AS encoding, bytes >= 0 AS bytes, raw_bytes, null_count, distinct_estimate, min, length(max) AS longest
    FROM howdah.column_chunks WHERE relation = 'views.one_secret'::regclass ORDER BY attnum;
GRANT SELECT ON shown, shown_groups, shown_chunks TO howdah_curious;
TABLE shown;
TABLE shown_groups;
TABLE shown_chunks;
SET ROLE howdah_curious;
TABLE shown;
TABLE shown_groups;
TABLE shown_chunks;
SELECT count(*) FROM howdah.table_column_chunks('one_secret');
RESET ROLE;
-- Some columns: rows may be counted, but not the bytes of all.
GRANT SELECT (id) ON one_secret TO howdah_curious;
SET ROLE howdah_curious;
TABLE shown;
TABLE shown_groups;
TABLE shown_chunks;
RESET ROLE;
GRANT SELECT ON one_secret TO howdah_curious;
SET ROLE howdah_curious;
TABLE shown;
TABLE shown_groups;
TABLE shown_chunks;
RESET ROLE;
-- Row security hides rows.
ALTER TABLE one_secret ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON one_secret USING (id < 0);
SET ROLE howdah_curious;
TABLE shown;
TABLE shown_groups;
TABLE shown_chunks;
RESET ROLE;
TABLE shown_chunks;
-- Monitoring roles see sizes of any table, as pgstattuple tells them, but no column's.
REVOKE SELECT ON one_secret FROM howdah_curious;
GRANT pg_stat_scan_tables TO howdah_curious;
SET ROLE howdah_curious;
TABLE shown;
TABLE shown_groups;
TABLE shown_chunks;
RESET ROLE;
REVOKE pg_stat_scan_tables FROM howdah_curious;
-- Other relations have no rows there.
SELECT count(*) FROM howdah.table_sizes('pg_class');
SELECT count(*) FROM howdah.table_row_groups('howdah.tables');
SELECT count(*) FROM howdah.table_column_chunks(0);

-- A transaction sees its own row groups, a rolled back one leaves none.
BEGIN;
CREATE TABLE own USING howdah AS SELECT i FROM generate_series(1, 1000) i;
SELECT cold_rows FROM howdah.tables WHERE relation = 'own'::regclass;
TRUNCATE own;
SELECT cold_rows FROM howdah.tables WHERE relation = 'own'::regclass;
ROLLBACK;

-- Rows that are deleted or updated are not counted by transactions that see that.
CREATE TABLE thinned (id int, k int) USING howdah;
INSERT INTO thinned SELECT i, i % 10 FROM generate_series(1, 21000) i;
BEGIN;
DELETE FROM thinned WHERE k = 3;
UPDATE thinned SET k = 11 WHERE id = 20000;
DELETE FROM thinned WHERE id = 20001;
SELECT cold_rows, cold_rows = (SELECT count(*) FROM thinned WHERE ctid >= '(2147483648,0)') AS exact FROM howdah.tables WHERE relation = 'thinned'::regclass;
ROLLBACK;
SELECT cold_rows FROM howdah.tables WHERE relation = 'thinned'::regclass;

-- Sizes: what \d+ shows is what the files hold, the cold side included. Files grow by up to 64 pages at once.
CREATE TABLE s (id int, word text) USING howdah;
SELECT pg_relation_size('s') AS hot, pg_table_size('s') > 0 AS empty_store;
INSERT INTO s SELECT i, md5(i::text) FROM generate_series(1, 100000) i;
SELECT pg_relation_size('s') AS hot,
       pg_table_size('s') = pg_relation_size('s') + pg_total_relation_size(reltoastrelid) AS parts,
       pg_table_size('s') >= cold_bytes AS holds_cold,
       pg_table_size('s') < cold_bytes * 1.05 + 600000 AS little_more,
       pg_total_relation_size('s') = pg_table_size('s') + pg_indexes_size('s') AS total,
       total_bytes = pg_total_relation_size('s') AS same
    FROM howdah.tables JOIN pg_class ON oid = relation WHERE relation = 's'::regclass;

-- Scans are counted, columnar ones and others, for each table by itself.
CREATE TABLE counted (id int, word text) USING howdah;
INSERT INTO counted SELECT i, 'x' FROM generate_series(1, 300000) i;
SET max_parallel_workers_per_gather = 0;
SELECT count(*) FROM counted WHERE id = 250000;
SET howdah.columnar_scan = off;
SELECT count(*) FROM counted;
RESET howdah.columnar_scan;
SELECT pg_stat_force_next_flush();
SELECT * FROM howdah.stat_scans WHERE relation = 'counted'::regclass;
SELECT 'counted'::regclass::oid AS counted \gset
BEGIN;
DROP TABLE counted;
ROLLBACK;
SELECT count(*) FROM howdah.table_scans(:counted);
BEGIN;
SAVEPOINT s;
DROP TABLE counted;
ROLLBACK TO s;
COMMIT;
SELECT count(*) FROM howdah.table_scans(:counted);
DROP TABLE counted;
SELECT count(*) FROM howdah.table_scans(:counted);

-- PostgreSQL's own counters count cold rows as they count heap's, by every kind of scan.
CREATE TABLE read_heap (id int PRIMARY KEY, k int) USING heap WITH (autovacuum_enabled = off);
CREATE TABLE read_howdah (id int PRIMARY KEY, k int) USING howdah WITH (autovacuum_enabled = off);
INSERT INTO read_heap SELECT i, i FROM generate_series(1, 20000) i;
INSERT INTO read_howdah SELECT i, i FROM generate_series(1, 20000) i;
CREATE INDEX ON read_heap (k);
CREATE INDEX ON read_howdah (k);
ANALYZE read_heap, read_howdah;
SET howdah.columnar_scan = off;
CREATE FUNCTION read(clause text, setting text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE t text; n bigint;
BEGIN
    IF setting <> '' THEN PERFORM set_config(setting, 'off', true); END IF;
    FOREACH t IN ARRAY ARRAY['read_heap', 'read_howdah'] LOOP
        EXECUTE format('SELECT sum(k) FROM %I %s', t, clause) INTO n;
    END LOOP;
    IF setting <> '' THEN PERFORM set_config(setting, 'on', true); END IF;
END $$;
CREATE FUNCTION counts() RETURNS TABLE (howdah text, same boolean) LANGUAGE sql AS $$
    WITH c AS (SELECT relname, format('%s rows in %s scans, %s rows by %s index scans', seq_tup_read, seq_scan, idx_tup_fetch, idx_scan) AS counts
        FROM pg_stat_user_tables WHERE relname IN ('read_heap', 'read_howdah'))
    SELECT b.counts, a.counts = b.counts FROM c a, c b WHERE a.relname = 'read_heap' AND b.relname = 'read_howdah' $$;
SELECT pg_stat_force_next_flush();
SELECT * FROM counts();
SET enable_seqscan = off;
SELECT read('WHERE id BETWEEN 500 AND 5000', 'enable_bitmapscan');
SELECT read('WHERE id BETWEEN 500 AND 5000', 'enable_indexscan');
RESET enable_seqscan;
SELECT read('TABLESAMPLE bernoulli (100)', '');
SELECT read('', '');
SELECT read($$WHERE ctid > '(0,0)'$$, '');
SELECT pg_stat_force_next_flush();
SELECT * FROM counts();
RESET howdah.columnar_scan;

-- Locks of cold rows: by row, by group, in queues, by serializable reads; hot rows (the first of a load) and other tables have none here.
SET howdah.load_threshold = 1000;
CREATE TABLE locked (id int PRIMARY KEY, k int) USING howdah WITH (autovacuum_enabled = off);
INSERT INTO locked SELECT i, i FROM generate_series(1, 1000) i;
INSERT INTO locked SELECT i, i FROM generate_series(1001, 20000) i;
CREATE VIEW own_locks AS SELECT relation, target, row, row_group, lock, granted, waitstart IS NULL AS not_waiting
    FROM howdah.locks WHERE pid = pg_backend_pid();
BEGIN;
SELECT id FROM locked WHERE id = 5500 FOR KEY SHARE;
SELECT id FROM locked WHERE id = 5501 FOR UPDATE;
SELECT id FROM locked WHERE id = 1 FOR UPDATE;
SELECT * FROM own_locks ORDER BY target, row;
SELECT l.target, t.id FROM own_locks l JOIN locked t ON t.ctid = l.row ORDER BY id;
SELECT count(*) = 1 AS is_a_group FROM own_locks l JOIN howdah.row_groups g USING (relation, row_group) WHERE g.first_row <= 5500
    AND l.lock = 'FOR NO KEY UPDATE or FOR UPDATE';
ROLLBACK;
BEGIN;
DELETE FROM locked WHERE id > 0;
SELECT * FROM own_locks ORDER BY target, row;
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SET LOCAL enable_seqscan = off;
SELECT k FROM locked WHERE id = 5500;
SELECT target, lock, count(*) FROM own_locks GROUP BY 1, 2 ORDER BY 1, 2;
COMMIT;

-- What one TID, or one lock of pg_locks, is for. Hot rows first: the first ones of the load.
CREATE FUNCTION cold(id int) RETURNS tid LANGUAGE sql AS $$SELECT ctid FROM views.locked l WHERE l.id = $1$$;
SELECT d.* FROM howdah.describe_lock('locked', '(0,1)') d;
SELECT d.* FROM howdah.describe_lock('locked', '(0,0)') d;
SELECT d.target, d.row = t.ctid AS same, d.row_number - g.first_row BETWEEN 0 AND g.row_count AS within, d.row_group = g.row_group AS of_group, d.state, d.new_row
    FROM locked t, howdah.row_groups g, howdah.describe_lock('locked', t.ctid) d WHERE t.id = 5500 AND g.relation = 'locked'::regclass;
-- A group, a block inside of it, a block beyond; rows that are no rows.
SELECT d.* FROM howdah.row_groups g, howdah.describe_lock('locked', format('(%s,0)', g.row_group + 2147483648)::tid) d WHERE g.relation = 'locked'::regclass;
SELECT d.* FROM howdah.row_groups g, howdah.describe_lock('locked', format('(%s,0)', g.row_group + 2147483649)::tid) d WHERE g.relation = 'locked'::regclass;
SELECT d.* FROM howdah.describe_lock('locked', '(3000000000,0)') d;
SELECT d.* FROM howdah.describe_lock('locked', '(3000000000,256)') d;
SELECT d.* FROM howdah.describe_lock('locked', '(2147483648,32769)') d;
SELECT d.* FROM howdah.describe_lock('locked', '(4294967294,0)') d;
SELECT d.* FROM howdah.describe_lock('locked', NULL) d;
-- TIDs that no row can have.
SELECT howdah.describe_lock('locked', '(2147483648,257)');
SELECT howdah.describe_lock('locked', '(4294967295,1)');
SELECT howdah.describe_lock('locked', '(2000000000,1)');
-- Rows that have changed, and are about to.
SELECT cold(5600) AS deleted, cold(5601) AS updated, cold(5602) AS kept \gset
DELETE FROM locked WHERE id = 5600;
UPDATE locked SET k = -1 WHERE id = 5601;
SELECT state, new_row IS NULL AS no_new_row FROM howdah.describe_lock('locked', :'deleted');
SELECT d.state, d.new_row = t.ctid AS new_row FROM howdah.describe_lock('locked', :'updated') d, locked t WHERE t.id = 5601;
BEGIN;
UPDATE locked SET k = -1 WHERE id = 5602;
SELECT state FROM howdah.describe_lock('locked', :'kept');
ROLLBACK;
SELECT state FROM howdah.describe_lock('locked', :'kept');
-- From pg_locks.
BEGIN;
SELECT id FROM locked WHERE id = 5500 FOR SHARE;
SELECT id FROM locked WHERE id = 1 FOR SHARE;
SELECT l.mode, d.target, d.row = cold(5500) AS same, d.state
    FROM pg_locks l, howdah.describe_lock(l.relation, l.page, l.tuple) d WHERE l.pid = pg_backend_pid() ORDER BY 2;
SELECT count(*) FROM howdah.describe_lock('pg_class', 1, 1::int2);
SELECT count(*) FROM howdah.describe_lock(NULL, 1, 1::int2);
SELECT count(*) FROM howdah.describe_lock('locked', NULL, NULL);
ROLLBACK;
-- Other relations.
CREATE TABLE on_heap (id int) USING heap;
CREATE TABLE parted (id int) PARTITION BY RANGE (id) USING howdah;
SELECT howdah.describe_lock('on_heap', '(0,1)');
SELECT howdah.describe_lock('parted', '(0,1)');
SELECT howdah.describe_lock('howdah.tables', '(0,1)');
SELECT howdah.describe_lock(1, '(0,1)');
-- A role that may not count the rows learns what the numbers say by themselves.
SET ROLE howdah_curious;
SELECT * FROM howdah.describe_lock('views.locked', :'kept');
RESET ROLE;
GRANT SELECT (id) ON locked TO howdah_curious;
SET ROLE howdah_curious;
SELECT * FROM howdah.describe_lock('views.locked', :'deleted');
RESET ROLE;
-- A row of a transaction's own load; a group that was merged, whose old entry may be gone already.
BEGIN;
INSERT INTO locked SELECT i, i FROM generate_series(30001, 40000) i;
SELECT DISTINCT d.state FROM locked t, howdah.describe_lock('locked', t.ctid) d WHERE t.id BETWEEN 35000 AND 35002;
COMMIT;
SELECT cold(35000) AS before \gset
CALL howdah.compact('locked');
SELECT d.state = 'no row' OR (d.state = 'moved' AND d.new_row = cold(35000)) AS follows FROM howdah.describe_lock('locked', :'before') d;

-- A group of which the session knows that all rows are hidden, with fewer rows than it has room for.
SET howdah.load_threshold = 100;
CREATE TABLE over (id int PRIMARY KEY, v int) USING howdah;
SELECT howdah.set_options('over', compaction => false);
INSERT INTO over SELECT i, i FROM generate_series(1, 1000) i;
SET howdah.load_threshold = 100000;
UPDATE over SET v = v + 1;
SELECT count(*) FROM over WHERE v > 0;
SELECT sum(v) FROM over;
SELECT cold_rows, row_groups FROM howdah.tables WHERE relation = 'over'::regclass;

SET client_min_messages = warning;
DROP SCHEMA views CASCADE;
DROP ROLE howdah_curious;
