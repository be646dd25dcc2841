-- What is left of a table's life: sizes, kinds of tables, cursors, samples, TID ranges, estimates.
CREATE SCHEMA surface;
SET search_path = surface, public;
SET howdah.load_threshold = 100;
SET client_min_messages = warning;
\getenv directory PG_ABS_SRCDIR
\set compare :directory '/sql/compare.psql'
\i :compare

-- Sizes: what the functions say is what the files have.
CREATE TABLE sized (id int, word text) USING howdah;
SELECT pg_table_size('sized') AS fresh, pg_table_size('sized') = pg_total_relation_size('sized') AS no_index;
INSERT INTO sized SELECT i, md5(i::text) FROM generate_series(1, 50000) i;
CREATE TABLE sized_heap USING heap AS TABLE sized;
SELECT pg_relation_size('sized') < pg_relation_size('sized_heap') / 50 AS few_hot_blocks,
    pg_table_size('sized') >= pg_relation_size('sized') + pg_relation_size(reltoastrelid) AS toast_counts,
    pg_table_size('sized') > (SELECT cold_bytes FROM howdah.tables WHERE relation = 'sized'::regclass) AS cold_counts,
    pg_table_size('sized') < pg_table_size('sized_heap') AS smaller
FROM pg_class WHERE oid = 'sized'::regclass;
CREATE INDEX ON sized (id);
SELECT pg_total_relation_size('sized') = pg_table_size('sized') + pg_indexes_size('sized') AS sums_up,
    total_bytes = pg_total_relation_size('sized') AS view_agrees
FROM howdah.tables WHERE relation = 'sized'::regclass;
\set HIDE_TABLEAM off
\d+ sized
\set HIDE_TABLEAM on
\pset format unaligned
SELECT c.relname, a.amname, c.relpersistence FROM pg_class c JOIN pg_am a ON a.oid = relam
    WHERE relnamespace = 'surface'::regnamespace AND relkind = 'r' ORDER BY 1;
\pset format aligned

-- Cursors, backwards over both sides.
CREATE TABLE walked (id int PRIMARY KEY, k int) USING howdah;
INSERT INTO walked SELECT i, i % 7 FROM generate_series(1, 100) i;
INSERT INTO walked SELECT i, i % 7 FROM generate_series(101, 1000) i;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM walked;
MOVE 98 IN c;
FETCH 4 FROM c;
FETCH BACKWARD 4 FROM c;
FETCH LAST FROM c;
FETCH BACKWARD 2 FROM c;
FETCH FIRST FROM c;
FETCH ABSOLUTE 500 FROM c;
FETCH RELATIVE -450 FROM c;
FETCH ABSOLUTE -1000 FROM c;
FETCH PRIOR FROM c;
FETCH NEXT FROM c;
MOVE FORWARD ALL IN c;
MOVE BACKWARD ALL IN c;
FETCH 1 FROM c;
CLOSE c;
SET LOCAL enable_seqscan = off;
DECLARE c SCROLL CURSOR FOR SELECT id FROM walked ORDER BY id;
MOVE 98 IN c;
FETCH 4 FROM c;
FETCH BACKWARD 4 FROM c;
DECLARE h CURSOR WITH HOLD FOR SELECT id FROM walked WHERE id IN (1, 999);
COMMIT;
FETCH ALL FROM h;
CLOSE h;
SELECT id FROM walked ORDER BY ctid DESC LIMIT 2;

-- Samples: everything, nothing, and a number of rows that is near the share asked for.
SELECT count(*), sum(id) FROM walked TABLESAMPLE system (100);
SELECT count(*), sum(id) FROM walked TABLESAMPLE bernoulli (100);
SELECT count(*) FROM walked TABLESAMPLE bernoulli (0);
SELECT count(*) BETWEEN 350 AND 650 AS near FROM walked TABLESAMPLE bernoulli (50) REPEATABLE (3);
SELECT (SELECT sum(id) FROM walked TABLESAMPLE bernoulli (50) REPEATABLE (3)) = (SELECT sum(id) FROM walked TABLESAMPLE bernoulli (50) REPEATABLE (3)) AS repeats;
SELECT count(*) BETWEEN 20000 AND 30000 AS near FROM sized TABLESAMPLE system (50) REPEATABLE (1);

-- Ranges of TIDs.
SELECT count(*) FROM walked WHERE ctid < '(2147483648,0)';
SELECT count(*), min(id), max(id) FROM walked WHERE ctid >= '(2147483648,11)' AND ctid < '(2147483649,1)';
SELECT count(*) FROM walked WHERE ctid > '(2147483650,1)';
SELECT count(*) FROM walked WHERE ctid > '(4294967295,1)';
SELECT count(*) FROM walked WHERE ctid >= '(0,99)' AND ctid <= '(2147483648,2)';
SELECT id FROM walked WHERE ctid = ANY (ARRAY['(0,1)', '(2147483648,1)', '(2147483999,1)', '(2147483648,300)', '(2147483648,0)']::tid[]) ORDER BY id;
SELECT count(*) FROM walked a JOIN walked b ON a.ctid = b.ctid;
SELECT currtid2('walked', '(2147483648,1)') = '(2147483648,1)' AS own;

-- Estimates beside heap's.
CREATE TABLE guessed_heap USING heap AS SELECT i AS id, i % 100 AS k, CASE WHEN i % 4 = 0 THEN NULL ELSE i / 10 END AS n FROM generate_series(1, 40000) i;
CREATE TABLE guessed USING howdah AS TABLE guessed_heap;
ANALYZE guessed;
ANALYZE guessed_heap;
SELECT h.attname, abs(h.null_frac - c.null_frac) < 0.02 AS null_frac, abs(h.correlation - c.correlation) < 0.1 AS correlation,
    CASE WHEN h.n_distinct > 0 THEN abs(h.n_distinct - c.n_distinct) / h.n_distinct < 0.2 ELSE abs(h.n_distinct - c.n_distinct) < 0.1 END AS n_distinct,
    h.avg_width = c.avg_width AS avg_width
FROM pg_stats h JOIN pg_stats c USING (schemaname, attname) WHERE h.tablename = 'guessed_heap' AND c.tablename = 'guessed' ORDER BY 1;
CREATE FUNCTION estimate(query text) RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
    RETURN (plan -> 0 -> 'Plan' ->> 'Plan Rows')::numeric;
END $$;
SELECT condition, estimate('SELECT FROM guessed WHERE ' || condition) BETWEEN h * 0.8 AND h * 1.25 AS near
FROM unnest(ARRAY['true', 'k = 7', 'id < 10000', 'n IS NULL', 'k < 50 AND id > 20000', 'k IN (1, 2, 3)']) condition,
    LATERAL (SELECT estimate('SELECT FROM guessed_heap WHERE ' || condition) AS h) e;

-- Few rows, all of them cold: guessed as heap does before ANALYZE, and known afterwards.
CREATE TABLE few (id int, k int) USING howdah WITH (autovacuum_enabled = off);
CREATE TABLE few_heap (id int, k int) USING heap WITH (autovacuum_enabled = off);
SET howdah.debug_force_cold = on;
INSERT INTO few SELECT i, i FROM generate_series(1, 1000) i;
RESET howdah.debug_force_cold;
INSERT INTO few_heap TABLE few;
SELECT estimate('TABLE few') = estimate('TABLE few_heap') AS guessed_alike;
ANALYZE few;
SELECT estimate('TABLE few');
-- Rows that became cold after ANALYZE are not counted twice, though their pages are still there.
CREATE TABLE cooled (id int, k int) USING howdah WITH (autovacuum_enabled = off);
SET howdah.bulk_load = off;
INSERT INTO cooled SELECT i, i FROM generate_series(1, 20000) i;
RESET howdah.bulk_load;
ANALYZE cooled;
CALL howdah.compact('cooled');
SELECT cold('cooled') AS cold, estimate('TABLE cooled');
-- And a load since, most of it cold.
INSERT INTO cooled SELECT i, i FROM generate_series(20001, 30000) i;
SELECT estimate('TABLE cooled') BETWEEN 29000 AND 31000 AS near;

-- What RETURNING says of rows on their way to a row group.
SET howdah.debug_force_cold = on;
BEGIN;
INSERT INTO few VALUES (2001, 1) RETURNING xmin = pg_current_xact_id()::xid AS own, xmax, cmin, ctid, tableoid::regclass;
INSERT INTO few SELECT i, 2 FROM generate_series(2002, 2003) i RETURNING xmin = pg_current_xact_id()::xid AS own, xmax, cmin;
SELECT xmin = pg_current_xact_id()::xid AS own, xmax, cmin FROM few WHERE id > 2000 ORDER BY id;
COMMIT;
RESET howdah.debug_force_cold;

-- Kinds of tables.
CREATE TEMP TABLE passing (id int PRIMARY KEY, word text) USING howdah;
INSERT INTO passing SELECT i, 'w' || i FROM generate_series(1, 2000) i;
CALL howdah.compact('passing');
SELECT count(*), sum(id), count(*) FILTER (WHERE (ctid::text::point)[0] >= 2147483648) AS cold FROM passing;
SELECT word FROM passing WHERE id = 1999;
TRUNCATE passing;
SELECT count(*) FROM passing;
DROP TABLE passing;
BEGIN;
CREATE TEMP TABLE passing (id int) USING howdah ON COMMIT DELETE ROWS;
INSERT INTO passing SELECT generate_series(1, 2000);
SELECT count(*) FROM passing;
COMMIT;
SELECT count(*) FROM passing;
INSERT INTO passing SELECT generate_series(1, 2000);
SELECT count(*) FROM passing;
CREATE UNLOGGED TABLE careless (id int PRIMARY KEY) USING howdah;
INSERT INTO careless SELECT generate_series(1, 2000);
CALL howdah.compact('careless');
SELECT count(*), cold('careless') FROM careless;
ALTER TABLE careless SET LOGGED;
SELECT count(*), cold('careless') FROM careless;

-- Tablespaces.
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE howdah_surface LOCATION '';
CREATE TABLE placed (id int PRIMARY KEY) USING howdah TABLESPACE howdah_surface;
INSERT INTO placed SELECT generate_series(1, 2000);
SELECT count(*), cold('placed') FROM placed;
SELECT t.spcname FROM pg_class c JOIN pg_class s ON s.oid = c.reltoastrelid JOIN pg_tablespace t ON t.oid = s.reltablespace WHERE c.oid = 'placed'::regclass;
ALTER TABLE placed SET TABLESPACE pg_default;
SELECT count(*), cold('placed') FROM placed;
CALL howdah.compact('placed');
ALTER TABLE placed SET TABLESPACE howdah_surface;
SELECT count(*), sum(id), cold('placed') FROM placed;
DROP TABLE placed;
DROP TABLESPACE howdah_surface;

-- Materialized views.
CREATE MATERIALIZED VIEW seen USING howdah AS SELECT id, id % 9 AS k FROM sized WHERE id <= 3000;
CREATE UNIQUE INDEX ON seen (id);
SELECT count(*), sum(k), cold('seen') FROM seen;
DELETE FROM sized_heap WHERE id > 100;
REFRESH MATERIALIZED VIEW seen;
SELECT count(*), sum(k), cold('seen') FROM seen;
CALL howdah.compact('seen');
SELECT count(*), sum(k), cold('seen') FROM seen;
INSERT INTO sized VALUES (0, 'more');
REFRESH MATERIALIZED VIEW CONCURRENTLY seen;
SELECT count(*), min(id) FROM seen;
REFRESH MATERIALIZED VIEW seen WITH NO DATA;
SELECT count(*) FROM seen;
REFRESH MATERIALIZED VIEW seen;
CREATE MATERIALIZED VIEW source_view USING howdah AS SELECT id, id % 9 AS k FROM walked;
CREATE UNIQUE INDEX ON source_view (id);
TRUNCATE walked;
\set SHOW_CONTEXT never
REFRESH MATERIALIZED VIEW CONCURRENTLY source_view;
\set SHOW_CONTEXT errors
SELECT count(*) FROM source_view;
REFRESH MATERIALIZED VIEW source_view;
SELECT count(*) FROM source_view;
INSERT INTO walked SELECT i, i % 7 FROM generate_series(1, 1000) i;

-- CLUSTER sorts the rows and chooses the order that compaction sorts by, unless the option
-- sort_key says another.
CREATE TABLE ordered (id int, k int, word text) USING howdah;
CREATE INDEX ordered_k ON ordered (k DESC, lower(word));
CREATE UNIQUE INDEX ordered_id ON ordered (id);
CREATE FUNCTION fill(first int) RETURNS void LANGUAGE sql SET howdah.bulk_load = off AS
    $$INSERT INTO ordered SELECT i, (i * 7919) % 1009, 'w' || i FROM generate_series(first, first + 999) i$$;
-- Rows of the last row group that come before their neighbour, by either column.
CREATE FUNCTION disorder() RETURNS TABLE (groups bigint, by_k bigint, by_id bigint) LANGUAGE sql AS $$
    SELECT (SELECT count(*) FROM howdah.row_groups WHERE relation = 'ordered'::regclass),
        count(*) FILTER (WHERE k < k_before), count(*) FILTER (WHERE id < id_before)
    FROM (SELECT k, id, lag(k) OVER (ORDER BY ctid) AS k_before, lag(id) OVER (ORDER BY ctid) AS id_before FROM ordered
          WHERE ctid >= (SELECT format('(%s,0)', 2147483648 + max(first_row) / 256)::tid FROM howdah.row_groups WHERE relation = 'ordered'::regclass)) x $$;
SELECT fill(1);
CALL howdah.compact('ordered');
SELECT groups, by_k > 0 AS by_k, by_id FROM disorder();
CLUSTER ordered USING ordered_k;
SELECT groups, by_k > 0 AS by_k, by_id > 0 AS by_id FROM disorder();
SELECT fill(1001);
-- The small groups become one, sorted as well.
CALL howdah.compact('ordered');
SELECT groups, by_k, by_id > 0 AS by_id FROM disorder();
SELECT howdah.set_options('ordered', sort_key => '{id}');
SELECT fill(2001);
CALL howdah.compact('ordered');
SELECT groups, by_k > 0 AS by_k, by_id FROM disorder();
SELECT howdah.set_options('ordered', sort_key => '{}');
SELECT fill(3002);
SELECT fill(1 - 1000);
CALL howdah.compact('ordered');
SELECT groups, by_k > 0 AS by_k, by_id FROM disorder();
SELECT howdah.reset_options('ordered');
ALTER TABLE ordered SET WITHOUT CLUSTER;
SELECT fill(5001);
CALL howdah.compact('ordered');
SELECT groups, by_k > 0 AS by_k, by_id FROM disorder();
SELECT count(*), sum(id), sum(k), cold('ordered') FROM ordered;
SET enable_seqscan = off;
SET howdah.columnar_scan = off;
SELECT count(*), sum(id), count(*) FILTER (WHERE word = 'w' || id AND k = mod(id * 7919, 1009)) AS right_rows FROM ordered WHERE k > -2000;
SELECT count(*), count(*) FILTER (WHERE word = 'w' || id) AS right_rows FROM ordered WHERE id > -5000;
RESET howdah.columnar_scan;
RESET enable_seqscan;

-- Partitions of both kinds, attached and detached with cold rows.
CREATE TABLE whole (id int, k int, word text) PARTITION BY RANGE (id);
CREATE TABLE whole_1 PARTITION OF whole FOR VALUES FROM (1) TO (1001) USING howdah;
CREATE TABLE whole_2 PARTITION OF whole FOR VALUES FROM (1001) TO (2001) USING heap;
CREATE INDEX ON whole (k);
CREATE UNIQUE INDEX ON whole (id);
INSERT INTO whole SELECT i, i % 10, 'w' || i FROM generate_series(1, 2000) i;
CREATE TABLE whole_3 (word text, id int NOT NULL, k int) USING howdah;
INSERT INTO whole_3 SELECT 'w' || i, i, i % 10 FROM generate_series(2001, 3000) i;
ALTER TABLE whole ATTACH PARTITION whole_3 FOR VALUES FROM (2001) TO (3001);
SELECT tableoid::regclass, count(*), sum(id), count(*) FILTER (WHERE (ctid::text::point)[0] >= 2147483648) AS cold FROM whole GROUP BY 1 ORDER BY 1;
SET enable_seqscan = off;
SELECT count(*), sum(id) FROM whole WHERE k = 3;
SELECT word FROM whole WHERE id IN (777, 1777, 2777) ORDER BY id;
RESET enable_seqscan;
INSERT INTO whole VALUES (2500, 1, 'twice');
ALTER TABLE whole DETACH PARTITION whole_1;
SELECT count(*), cold('whole_1') FROM whole_1;
SELECT count(*) FROM whole;
ALTER TABLE whole ATTACH PARTITION whole_1 FOR VALUES FROM (1) TO (501);
ALTER TABLE whole ATTACH PARTITION whole_1 FOR VALUES FROM (1) TO (1001);
ALTER TABLE whole DETACH PARTITION whole_3 CONCURRENTLY;
SELECT count(*), sum(id) FROM whole;
-- Nowhere to go.
INSERT INTO whole VALUES (0 + 1500000, 1, 'none');
SELECT count(*) FROM whole a JOIN whole b USING (id) WHERE a.k = 4;

-- Inheritance.
CREATE TABLE parent (id int, word text) USING howdah;
CREATE TABLE child (extra int) INHERITS (parent) USING howdah;
CREATE TABLE child_heap (extra int) INHERITS (parent) USING heap;
INSERT INTO parent SELECT i, 'p' FROM generate_series(1, 500) i;
INSERT INTO child SELECT i, 'c', i FROM generate_series(501, 1000) i;
INSERT INTO child_heap SELECT i, 'h', i FROM generate_series(1001, 1500) i;
SELECT tableoid::regclass, count(*), sum(id) FROM parent GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM ONLY parent;

-- Constraints over both sides.
CREATE TABLE slots (room int, during int4range, n int CHECK (n < 5000), EXCLUDE USING gist (during WITH &&)) USING howdah;
INSERT INTO slots SELECT 1, int4range(i * 10, i * 10 + 5), i FROM generate_series(1, 1000) i;
SELECT cold('slots');
CALL howdah.compact('slots');
SELECT cold('slots');
INSERT INTO slots VALUES (1, '[52,53)', 1);
INSERT INTO slots VALUES (1, '[56,59)', 1);
INSERT INTO slots VALUES (1, '[58,61)', 1);
INSERT INTO slots SELECT 1, int4range(20000 + i * 10, 20000 + i * 10 + 5), i FROM generate_series(1, 1000) i;
INSERT INTO slots SELECT 1, int4range(40000 - i * 10, 40000 - i * 10 + 5), i FROM generate_series(1, 1000) i;
SELECT count(*), cold('slots') FROM slots;
ALTER TABLE slots ADD CHECK (n < 1000);
INSERT INTO slots VALUES (1, '[90000,90001)', 6000);
ALTER TABLE slots ADD CONSTRAINT whole_range EXCLUDE USING gist (during WITH =);
SELECT count(*) FROM slots WHERE during @> 52;

-- Deferred and nulls-not-distinct uniqueness.
CREATE TABLE late (id int UNIQUE DEFERRABLE INITIALLY DEFERRED, n int UNIQUE NULLS NOT DISTINCT) USING howdah;
INSERT INTO late SELECT i, i FROM generate_series(1, 500) i;
BEGIN;
INSERT INTO late SELECT i, i + 1000 FROM generate_series(500, 900) i;
SELECT count(*) FROM late;
COMMIT;
SELECT count(*) FROM late;
INSERT INTO late VALUES (1001, NULL);
INSERT INTO late VALUES (1002, NULL);

-- BRIN: hidden once there are cold rows, also when they come after the plan was made.
CREATE TABLE brinned (id int, k int) USING howdah WITH (autovacuum_enabled = off);
INSERT INTO brinned SELECT i, i FROM generate_series(1, 20000) i;
CREATE INDEX brinned_k ON brinned USING brin (k) WITH (pages_per_range = 1);
TRUNCATE brinned;
INSERT INTO brinned SELECT i, i FROM generate_series(1, 20000) i;
SELECT cold('brinned');
SET enable_seqscan = off;
SET plan_cache_mode = force_generic_plan;
PREPARE by_brin(int) AS SELECT count(*) FROM brinned WHERE k BETWEEN $1 AND $1 + 9;
EXPLAIN (COSTS OFF) EXECUTE by_brin(5000);
EXECUTE by_brin(5000);
CALL howdah.compact('brinned');
EXECUTE by_brin(5000);
EXPLAIN (COSTS OFF) EXECUTE by_brin(5000);
RESET enable_seqscan;

-- Nothing that the extension's views use is found by a search path.
SELECT DISTINCT pg_describe_object(d.refclassid, d.refobjid, 0)
FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
WHERE c.relnamespace = 'howdah'::regnamespace AND d.refclassid IN ('pg_operator'::regclass, 'pg_type'::regclass, 'pg_cast'::regclass);
SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
WHERE p.pronamespace = 'howdah'::regnamespace AND (l.lanname <> 'c' OR p.prosecdef);
-- A schema of that name that another role has made, or filled, is refused.
CREATE ROLE howdah_squatter;
SELECT current_database() AS database \gset
GRANT CREATE ON DATABASE :"database" TO howdah_squatter;
BEGIN;
DROP EXTENSION howdah CASCADE;
DROP SCHEMA IF EXISTS howdah CASCADE;
SET LOCAL ROLE howdah_squatter;
CREATE SCHEMA howdah;
RESET ROLE;
SAVEPOINT refused;
CREATE EXTENSION howdah;
ROLLBACK TO refused;
-- Neither is it enough to give it away.
SET LOCAL ROLE howdah_squatter;
CREATE FUNCTION howdah.adopt(text) RETURNS void LANGUAGE sql AS 'SELECT';
RESET ROLE;
ALTER SCHEMA howdah OWNER TO CURRENT_USER;
SAVEPOINT refused;
CREATE EXTENSION howdah;
ROLLBACK TO refused;
DROP FUNCTION howdah.adopt(text);
CREATE FUNCTION howdah.divide(numeric, bigint) RETURNS numeric LANGUAGE sql AS 'SELECT 0.0';
CREATE OPERATOR howdah./ (FUNCTION = howdah.divide, LEFTARG = numeric, RIGHTARG = bigint);
CREATE EXTENSION howdah;
ROLLBACK TO refused;
DROP FUNCTION howdah.adopt(text);
SAVEPOINT granted;
GRANT CREATE ON SCHEMA howdah TO howdah_squatter;
CREATE EXTENSION howdah;
ROLLBACK TO granted;
-- An empty one of the installer's will do; a role of the extension's name is worth a warning.
CREATE ROLE howdah;
CREATE EXTENSION howdah;
SELECT count(*) FROM howdah.tables;
SELECT howdah.check_schema();
ROLLBACK;
DROP OWNED BY howdah_squatter;
DROP ROLE howdah_squatter;

DROP SCHEMA surface CASCADE;
