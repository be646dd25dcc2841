-- Every form of ALTER, and what it leaves of hot and cold rows: types, domains, inheritance, partitions, rewrites, rollbacks.
-- altered_on_heap.sql is this file by another name and runs it over heap; what the two print must
-- be the same, to the letter.
SELECT current_setting('application_name') LIKE '%on_heap' AS on_heap \gset
\if :on_heap
    SET default_table_access_method = heap;
    \set cold false
\else
    SET default_table_access_method = howdah;
    \set cold true
\endif
\set SHOW_CONTEXT never
SET howdah.load_threshold = 300;
SET client_min_messages = warning;
CREATE SCHEMA altered;
SET search_path = altered, public;
-- Count and fingerprint of a query's rows, whatever their order.
CREATE FUNCTION dig(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE rows bigint; digest text;
BEGIN
    EXECUTE format('SELECT count(*), md5(string_agg(x::text, E''\n'' ORDER BY x::text COLLATE "C")) FROM (%s) x', query) INTO rows, digest;
    RETURN rows || ' ' || coalesce(digest, '-');
END $$;
-- The same in their order.
CREATE FUNCTION ordered(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE one record; rows bigint := 0; digest text := '';
BEGIN
    FOR one IN EXECUTE query LOOP rows := rows + 1; digest := md5(digest || one::text); END LOOP;
    RETURN rows || ' ' || digest;
END $$;

-- ALTER forms.
CREATE TYPE comp AS (x int, y text);
CREATE TYPE en AS ENUM ('a','b','c');
CREATE DOMAIN dom AS int CHECK (value < 100000);
CREATE TABLE t (id int, k int, w text, n numeric, c comp, e en, d dom, arr text[], j jsonb);
INSERT INTO t SELECT i, i%10, 'w'||i, i/8.0, ROW(i,'y'||i)::comp, (ARRAY['a','b','c'])[i%3+1]::en, i, ARRAY['p'||i, NULL], jsonb_build_object('k',i,'n',null) FROM generate_series(1,3000) i;
\if :cold
    CALL howdah.compact('t');
\endif
CREATE INDEX t_w ON t (w);
CREATE UNIQUE INDEX t_id ON t (id);
CREATE INDEX t_expr ON t (lower(w), (n*2));
CREATE INDEX t_comp ON t (((c).x));
CREATE INDEX t_gin ON t USING gin (j);
CREATE INDEX t_arr ON t USING gin (arr);
SELECT dig('TABLE t');

-- Volatile default rewrites; constants don't.
ALTER TABLE t ADD COLUMN v1 int DEFAULT 5, ADD COLUMN v2 text DEFAULT 'x' || 'y', ADD COLUMN v3 dom DEFAULT 7;
SELECT dig('TABLE t');
CREATE SEQUENCE s;
ALTER TABLE t ADD COLUMN v4 int DEFAULT nextval('s');
SELECT count(DISTINCT v4), min(v4), max(v4) FROM t;
ALTER TABLE t DROP v4;
\if :cold
    CALL howdah.compact('t');
\endif
ALTER TABLE t ADD COLUMN v5 timestamptz DEFAULT '2020-01-01' NOT NULL, ADD COLUMN v6 int NOT NULL;
ALTER TABLE t ADD COLUMN v7 int CHECK (v7 > 5) DEFAULT 6;
ALTER TABLE t ADD COLUMN v8 int CHECK (v8 > 5) DEFAULT 5;
ALTER TABLE t ADD COLUMN v9 int UNIQUE;
ALTER TABLE t ADD COLUMN v10 int UNIQUE DEFAULT 1;
ALTER TABLE t ADD COLUMN v11 int PRIMARY KEY DEFAULT 1;
ALTER TABLE t ADD COLUMN v12 bool GENERATED ALWAYS AS (k > 3) STORED;
ALTER TABLE t ADD COLUMN v13 int GENERATED ALWAYS AS (k * 3) VIRTUAL;
SELECT dig('TABLE t');
ALTER TABLE t ALTER v12 SET EXPRESSION AS (k > 5);
SELECT dig('TABLE t');
ALTER TABLE t ALTER v13 SET EXPRESSION AS (k * 5);
SELECT dig('TABLE t');
ALTER TABLE t ALTER v12 DROP EXPRESSION;
SELECT dig('TABLE t');
INSERT INTO t (id,k,v12) VALUES (-1, 9, false);
SELECT dig('TABLE t');
CREATE INDEX t_v12 ON t (v12) WHERE v12;
ALTER TABLE t DROP COLUMN v12;
SELECT dig('TABLE t');
DROP INDEX t_w;
CREATE INDEX t_wk ON t (w, k);
ALTER TABLE t DROP COLUMN k;
SELECT dig('TABLE t');
ALTER TABLE t DROP COLUMN v13;
ALTER TABLE t DROP COLUMN k;
SELECT dig('TABLE t');
ALTER TABLE t ADD COLUMN k text DEFAULT 'again';
SELECT dig('TABLE t');
SELECT count(*) FROM t WHERE k = 'again';
ALTER TABLE t ALTER w TYPE varchar(6);
ALTER TABLE t ALTER w TYPE varchar(5);
ALTER TABLE t ALTER w TYPE char(8);
SELECT dig('SELECT w, length(w), w || ''|'' FROM t');
ALTER TABLE t ALTER w TYPE text COLLATE "C";
SELECT ordered('SELECT w FROM t ORDER BY w');
ALTER TABLE t ALTER n TYPE numeric(10,1);
SELECT dig('SELECT n, scale(n) FROM t');
ALTER TABLE t ALTER n TYPE numeric(12,1);
ALTER TABLE t ALTER n TYPE numeric(12,4);
SELECT dig('SELECT n, scale(n) FROM t');
ALTER TABLE t ALTER n TYPE int;
ALTER TABLE t ALTER n TYPE numeric;
ALTER TABLE t ALTER n TYPE money;
SELECT dig('TABLE t');
ALTER TABLE t ALTER e TYPE text;
ALTER TABLE t ALTER e TYPE en USING e::en;
SELECT dig('SELECT id, e, e > ''a'' FROM t');
ALTER TYPE en ADD VALUE 'aa' BEFORE 'b';
ALTER TYPE en RENAME VALUE 'c' TO 'cc';
INSERT INTO t (id, e) VALUES (-2, 'aa');
SELECT e, count(*) FROM t GROUP BY e ORDER BY e;
SELECT count(*) FROM t WHERE e >= 'aa';
SELECT count(*) FROM t WHERE e = 'cc';
ALTER DOMAIN dom ADD CONSTRAINT c2 CHECK (value < 2000);
ALTER DOMAIN dom ADD CONSTRAINT c3 CHECK (value < 20000);
ALTER DOMAIN dom SET NOT NULL;
ALTER DOMAIN dom ADD CONSTRAINT c4 CHECK (value < 10) NOT VALID;
ALTER DOMAIN dom VALIDATE CONSTRAINT c4;
ALTER DOMAIN dom DROP CONSTRAINT c4;
ALTER TYPE comp ADD ATTRIBUTE z int;
ALTER TYPE comp RENAME ATTRIBUTE y TO yy;
ALTER TYPE comp ALTER ATTRIBUTE x TYPE bigint;
DROP INDEX t_comp;
SELECT t.c FROM t WHERE id = 4;
SELECT (c).yy FROM t WHERE id=4;
ALTER TYPE comp DROP ATTRIBUTE z;
SELECT t.c FROM t WHERE id = 4;
ALTER TABLE t ALTER d SET NOT NULL;
UPDATE t SET d = 1 WHERE d IS NULL;
ALTER TABLE t ALTER d SET NOT NULL;
ALTER TABLE t ALTER d DROP NOT NULL;
ALTER TABLE t ADD CONSTRAINT nn NOT NULL arr NOT VALID;
ALTER TABLE t VALIDATE CONSTRAINT nn;
ALTER TABLE t DROP CONSTRAINT nn;
ALTER TABLE t ADD CONSTRAINT ck CHECK (id < 100) NOT ENFORCED;
ALTER TABLE t ALTER CONSTRAINT ck ENFORCED;
ALTER TABLE t DROP CONSTRAINT ck;
ALTER TABLE t ADD PRIMARY KEY USING INDEX t_id;
ALTER TABLE t ALTER id TYPE bigint;
SELECT dig('TABLE t');
INSERT INTO t(id) VALUES (5);
ALTER TABLE t SET (fillfactor=50, autovacuum_enabled=off, toast_tuple_target=200, toast.autovacuum_enabled=off);
ALTER TABLE t RESET (fillfactor);
SELECT dig('TABLE t');
ALTER TABLE t ALTER w SET STORAGE EXTERNAL;
ALTER TABLE t ALTER w SET STORAGE PLAIN;
ALTER TABLE t ALTER w SET STORAGE MAIN;
ALTER TABLE t ALTER w SET COMPRESSION pglz;
INSERT INTO t(id,w) SELECT i, repeat('z', i % 4000) FROM generate_series(100000, 100400) i;
SELECT dig('TABLE t');
ALTER TABLE t REPLICA IDENTITY FULL;
ALTER TABLE t REPLICA IDENTITY NOTHING;
ALTER TABLE t REPLICA IDENTITY USING INDEX t_pkey;
ALTER TABLE t REPLICA IDENTITY USING INDEX t_id;
ALTER TABLE t REPLICA IDENTITY DEFAULT;
ALTER TABLE t RENAME TO t2;
ALTER TABLE t2 RENAME TO t;
ALTER TABLE t RENAME CONSTRAINT t_id TO pk;
ALTER INDEX pk RENAME TO pk2;
ALTER TABLE t CLUSTER ON pk2;
CLUSTER t;
SELECT dig('TABLE t');
ALTER TABLE t SET WITHOUT CLUSTER;
CLUSTER t;
CLUSTER t USING pk2;
CLUSTER;
CLUSTER (VERBOSE off) t;
ALTER TABLE t SET UNLOGGED;
SELECT dig('TABLE t');
ALTER TABLE t SET LOGGED;
SELECT dig('TABLE t');
ALTER TABLE t SET LOGGED;
CREATE TYPE ot AS (a int, b text);
CREATE TABLE typed OF ot;
INSERT INTO typed SELECT i, 'b'||i FROM generate_series(1,1000) i;
SELECT dig('TABLE typed');
ALTER TABLE typed NOT OF;
ALTER TABLE typed OF ot;
ALTER TYPE ot ADD ATTRIBUTE c int CASCADE;
SELECT dig('TABLE typed');
ALTER TYPE ot ALTER ATTRIBUTE b TYPE varchar(10) CASCADE;
SELECT dig('TABLE typed');
ALTER TYPE ot DROP ATTRIBUTE a CASCADE;
SELECT dig('TABLE typed');
CREATE TABLE par (id bigint);
CREATE TABLE kid (id bigint, x int);
INSERT INTO kid SELECT i, i FROM generate_series(1,1000) i;
INSERT INTO par SELECT generate_series(1,500);
ALTER TABLE kid INHERIT par;
SELECT dig('TABLE par'), dig('SELECT * FROM ONLY par');
ALTER TABLE par ADD COLUMN y text DEFAULT 'yy';
SELECT dig('SELECT * FROM par'), dig('TABLE kid');
ALTER TABLE par ALTER id TYPE int;
SELECT dig('TABLE par');
ALTER TABLE par ADD CHECK (id < 900);
ALTER TABLE par ADD CHECK (id < 2000);
ALTER TABLE ONLY par DROP COLUMN y;
SELECT dig('TABLE kid');
ALTER TABLE kid NO INHERIT par;
SELECT dig('TABLE par');
UPDATE par SET id = id + 1;

-- Partitions.
CREATE TABLE pt (id int, k int, w text) PARTITION BY RANGE (id);
CREATE TABLE pt_def PARTITION OF pt DEFAULT;
INSERT INTO pt SELECT i, i%5, 'w' FROM generate_series(1,2000) i;
CREATE TABLE pt_1 PARTITION OF pt FOR VALUES FROM (1) TO (500);
CREATE TABLE pt_9 PARTITION OF pt FOR VALUES FROM (9000) TO (9500);
CREATE TABLE pt_2 (id int, k int, w text);
INSERT INTO pt_2 SELECT i, i%5, 'w' FROM generate_series(5001,6000) i;
\if :cold
    CALL howdah.compact('t');
    CALL howdah.compact('typed');
    CALL howdah.compact('par');
    CALL howdah.compact('kid');
    CALL howdah.compact('pt_def');
    CALL howdah.compact('pt_9');
    CALL howdah.compact('pt_2');
\endif
ALTER TABLE pt ATTACH PARTITION pt_2 FOR VALUES FROM (5001) TO (6000);
ALTER TABLE pt ATTACH PARTITION pt_2 FOR VALUES FROM (5001) TO (6001);
SELECT tableoid::regclass, count(*), sum(id) FROM pt GROUP BY tableoid ORDER BY tableoid::regclass::text COLLATE "C";
INSERT INTO pt_2 VALUES (1);
DELETE FROM pt WHERE id BETWEEN 1 AND 500;
CREATE TABLE pt_1 PARTITION OF pt FOR VALUES FROM (1) TO (500);
CREATE INDEX ON pt (k);
CREATE UNIQUE INDEX ON pt (id);
ALTER TABLE pt ADD COLUMN z int DEFAULT 3;
UPDATE pt SET id = id - 5000 WHERE id BETWEEN 5010 AND 5020;
SELECT tableoid::regclass, count(*), sum(id), sum(z) FROM pt GROUP BY tableoid ORDER BY tableoid::regclass::text COLLATE "C";
ALTER TABLE pt DETACH PARTITION pt_2;
SELECT dig('TABLE pt_2');
INSERT INTO pt_2 VALUES (1);
ALTER TABLE pt ATTACH PARTITION pt_2 FOR VALUES FROM (5001) TO (6001);
DELETE FROM pt_2 WHERE id = 1;
ALTER TABLE pt ATTACH PARTITION pt_2 FOR VALUES FROM (5001) TO (6001);
SELECT dig('TABLE pt');
ALTER TABLE pt ALTER k TYPE text;
SELECT dig('TABLE pt');
ALTER TABLE pt DROP COLUMN w;
SELECT dig('TABLE pt');
TRUNCATE ONLY pt;
TRUNCATE pt_def;
SELECT dig('TABLE pt');
ALTER TABLE pt DETACH PARTITION pt_2 CONCURRENTLY;
SELECT dig('TABLE pt'), dig('TABLE pt_2');
DROP TABLE pt;

-- LIKE, CTAS, SELECT INTO.
CREATE TABLE lk (LIKE t INCLUDING ALL);
INSERT INTO lk SELECT * FROM t WHERE id % 2 = 0;
SELECT dig('TABLE lk');
SELECT id, w INTO si FROM t WHERE id < 500;
SELECT dig('TABLE si');
CREATE TABLE IF NOT EXISTS si AS SELECT 1;
CREATE TABLE ct AS EXECUTE nope;
PREPARE yes AS SELECT id FROM t WHERE id > 50;
CREATE TABLE ct AS EXECUTE yes;
SELECT dig('TABLE ct');

-- Rollback of ddl.
BEGIN;
ALTER TABLE t DROP COLUMN w;
ALTER TABLE t ADD COLUMN w int DEFAULT 9;
SAVEPOINT a;
ALTER TABLE t ALTER w TYPE text;
INSERT INTO t(id) SELECT generate_series(700000,701000);
SELECT count(*), sum(length(w)) FROM t;
ROLLBACK TO a;
SELECT count(*), sum(w) FROM t;
TRUNCATE t;
INSERT INTO t(id) SELECT generate_series(700000,701000);
ROLLBACK TO a;
SELECT count(*), sum(w) FROM t;
DROP TABLE t;
ROLLBACK;
SELECT dig('TABLE t');
\if :cold
    CALL howdah.compact('t');
    CALL howdah.compact('typed');
    CALL howdah.compact('par');
    CALL howdah.compact('kid');
    CALL howdah.compact('lk');
    CALL howdah.compact('si');
    CALL howdah.compact('ct');
\endif
SELECT dig('TABLE t');
ALTER TABLE t SET ACCESS METHOD heap;
SELECT dig('TABLE t');
ALTER TABLE t SET ACCESS METHOD DEFAULT;
SELECT dig('TABLE t');
SET enable_seqscan=off;
SET howdah.columnar_scan=off;
SELECT dig('SELECT * FROM t WHERE id > -100'), dig('SELECT * FROM t WHERE arr @> ARRAY[''p5'']'), dig('SELECT * FROM t WHERE j @> ''{"k":77}''');
VACUUM FULL t;
SELECT dig('SELECT * FROM t WHERE id > -100'), dig('SELECT * FROM t WHERE arr @> ARRAY[''p5'']'), dig('SELECT * FROM t WHERE j @> ''{"k":77}''');
VACUUM (FREEZE, DISABLE_PAGE_SKIPPING, PARALLEL 2, INDEX_CLEANUP on, TRUNCATE on) t;
VACUUM (PROCESS_MAIN false) t;
VACUUM (PROCESS_TOAST false) t;
VACUUM (SKIP_LOCKED, ANALYZE) t;
VACUUM (FULL, ANALYZE) t;
SELECT dig('SELECT * FROM t WHERE id > -100');
RESET enable_seqscan;
CREATE STATISTICS st (ndistinct, dependencies, mcv) ON id, w FROM t;
CREATE STATISTICS st2 ON (lower(w)) FROM t;
ANALYZE t;
SELECT count(*) FROM pg_stats_ext WHERE schemaname = 'altered';
SELECT count(*) > 0 FROM pg_stats_ext_exprs WHERE schemaname = 'altered';
ANALYZE t (id, w);
ANALYZE (VERBOSE off) t;

DROP SCHEMA altered CASCADE;
