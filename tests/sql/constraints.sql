-- Constraints and indexes of every kind over hot and cold rows; values of every type; what ANALYZE finds.
-- constraints_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA indexed;
SET search_path = indexed, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin

-- Exclusion etc.
CREATE TABLE ex (id int, room int, during tsrange, EXCLUDE USING gist (during WITH &&) WHERE (room > 0));
INSERT INTO ex SELECT i, i % 3, tsrange(timestamp '2026-01-01' + i * interval '1 h', timestamp '2026-01-01' + i * interval '1 h' + interval '30 min') FROM generate_series(1,1500) i;
\if :cold
    CALL howdah.compact('ex');
\endif
INSERT INTO ex VALUES (9000, 1, '[2026-01-02 03:10,2026-01-02 03:20)');
INSERT INTO ex VALUES (9000, 0, '[2026-01-02 03:10,2026-01-02 03:20)');
UPDATE ex SET room = 1 WHERE id = 9000;
UPDATE ex SET room = room WHERE id < 50;
DELETE FROM ex WHERE id = 100;
INSERT INTO ex SELECT 100, 1, tsrange(timestamp '2026-01-01' + 100 * interval '1 h', timestamp '2026-01-01' + 100 * interval '1 h' + interval '30 min');
SELECT dig('TABLE ex');
INSERT INTO ex SELECT i, 1, tsrange(timestamp '2027-01-01' + i * interval '1 h', timestamp '2027-01-01' + i * interval '1 h' + interval '90 min') FROM generate_series(1,500) i;
SELECT dig('TABLE ex');
ALTER TABLE ex ADD EXCLUDE USING hash (id WITH =) DEFERRABLE INITIALLY DEFERRED;
INSERT INTO ex VALUES (5, -1, NULL);
BEGIN;
INSERT INTO ex VALUES (5, -1, NULL);
DELETE FROM ex WHERE id = 5 AND room = -1;
COMMIT;
SELECT dig('TABLE ex');
REINDEX TABLE CONCURRENTLY ex;
REINDEX TABLE ex;
INSERT INTO ex VALUES (5, -1, NULL);

-- Index kinds made over mixed rows, dropped, concurrently, failing expressions.
CREATE TABLE t (id int, w text, z int, v float8, ip inet, tv tsvector, bx box, r int8range, u uuid, arr int[], j jsonb);
INSERT INTO t SELECT i, 'word ' || i % 300, 100 - i, i / 3.0, ('10.0.' || i % 250 || '.' || i % 200)::inet, to_tsvector('simple', 'a' || i % 50 || ' b' || i % 7), box(point(i,i), point(i+1,i+1)), int8range(i, i + 10), md5(i::text)::uuid, ARRAY[i % 10, i % 100], jsonb_build_object('a', i % 77, 'b', ARRAY[i]) FROM generate_series(1,5000) i;
\if :cold
    CALL howdah.compact('ex');
    CALL howdah.compact('t');
\endif
INSERT INTO t(id, w) VALUES (-1, NULL), (-2, 'x');
DELETE FROM t WHERE id % 19 = 0;
CREATE INDEX bad ON t ((1 / z));
CREATE INDEX CONCURRENTLY bad ON t ((1 / z));
SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 'bad'::regclass;
DELETE FROM t WHERE z = 0;
REINDEX INDEX CONCURRENTLY bad;
SELECT indisvalid, indisready FROM pg_index WHERE indexrelid = 'bad'::regclass;
INSERT INTO t (id, z) VALUES (0, 0);
INSERT INTO t (id, z) SELECT i, i - 700 FROM generate_series(10000, 11000) i;
SELECT count(*) FROM t WHERE id BETWEEN 10000 AND 11000;
INSERT INTO t (id, z) SELECT i, 700 - i FROM generate_series(0, 1000) i;
SELECT dig('TABLE t');
DROP INDEX bad;
CREATE INDEX i1 ON t USING gist (ip inet_ops);
CREATE INDEX i2 ON t USING spgist (ip);
CREATE INDEX i3 ON t USING gin (tv);
CREATE INDEX i4 ON t USING gist (tv);
CREATE INDEX i5 ON t USING spgist (r);
CREATE INDEX i6 ON t USING gist (bx);
CREATE INDEX i7 ON t USING hash (u);
CREATE INDEX i8 ON t USING gin (arr);
CREATE INDEX i9 ON t USING gin (j jsonb_path_ops) WITH (fastupdate=on);
CREATE INDEX i10 ON t USING brin (id) WITH (pages_per_range=1, autosummarize=on);
CREATE INDEX i11 ON t USING brin (v float8_minmax_multi_ops);
CREATE INDEX i12 ON t USING brin (id int4_bloom_ops);
CREATE INDEX i13 ON t (w text_pattern_ops) INCLUDE (v) WHERE id % 2 = 0;
CREATE INDEX i14 ON t USING spgist (w);
SET enable_seqscan=off;
SET howdah.columnar_scan=off;
SET enable_bitmapscan=on;
SELECT dig('SELECT id FROM t WHERE ip << ''10.0.7.0/24'''), dig('SELECT id FROM t WHERE tv @@ ''a5 & b3'''), dig('SELECT id FROM t WHERE r @> 777::int8'), dig('SELECT id FROM t WHERE bx && box ''((100,100),(120,120))'''), dig('SELECT id FROM t WHERE u = md5(''77'')::uuid'), dig('SELECT id FROM t WHERE arr @> ''{7,97}'''), dig('SELECT id FROM t WHERE j @> ''{"a":7}'''), dig('SELECT id FROM t WHERE id = 4444'), dig('SELECT id FROM t WHERE v BETWEEN 100 AND 200'), dig('SELECT id, v FROM t WHERE w LIKE ''word 7%'' AND id % 2 = 0'), dig('SELECT id FROM t WHERE w = ''word 8''');
SELECT ordered('SELECT id FROM t WHERE bx IS NOT NULL ORDER BY bx <-> point(50,50), id LIMIT 20');
UPDATE t SET w = w || '!', ip = '11.0.0.1', tv = 'zz', r = '[100000,100001)', u = NULL, arr = '{555}', j = '{"a":555}' WHERE id % 23 = 1;
SELECT dig('SELECT id FROM t WHERE ip = ''11.0.0.1'''), dig('SELECT id FROM t WHERE tv @@ ''zz'''), dig('SELECT id FROM t WHERE r @> 100000::int8'), dig('SELECT id FROM t WHERE arr @> ''{555}'''), dig('SELECT id FROM t WHERE j @> ''{"a":555}'''), dig('SELECT id FROM t WHERE w LIKE ''word%!''');
VACUUM t;
SELECT dig('SELECT id FROM t WHERE ip = ''11.0.0.1'''), dig('SELECT id FROM t WHERE tv @@ ''zz'''), dig('SELECT id FROM t WHERE u = md5(''78'')::uuid');
SELECT gin_clean_pending_list('i9') >= 0;
SELECT brin_summarize_new_values('i10') >= 0;
SELECT brin_desummarize_range('i10', 0);
SELECT dig('SELECT id FROM t WHERE id = 100');
REINDEX TABLE CONCURRENTLY t;
REINDEX SCHEMA CONCURRENTLY indexed;
REINDEX SCHEMA indexed;
SELECT dig('SELECT id FROM t WHERE ip = ''11.0.0.1'''), dig('SELECT id FROM t WHERE tv @@ ''zz'''), dig('SELECT id FROM t WHERE r @> 100000::int8'), dig('SELECT id FROM t WHERE id = 4444');
RESET enable_seqscan;
RESET howdah.columnar_scan;

-- Unique, nulls, include, constraint using index, attach.
CREATE TABLE uq (a int, b int, c text, UNIQUE NULLS NOT DISTINCT (a, b) INCLUDE (c));
INSERT INTO uq SELECT i, NULLIF(i % 10, 0), 'c' || i FROM generate_series(1,1000) i;
\if :cold
    CALL howdah.compact('ex');
    CALL howdah.compact('t');
    CALL howdah.compact('uq');
\endif
INSERT INTO uq VALUES (10, NULL);
INSERT INTO uq VALUES (11, 1);
INSERT INTO uq VALUES (NULL, NULL);
INSERT INTO uq VALUES (NULL, NULL);
INSERT INTO uq SELECT i, i % 9, 'd' FROM generate_series(500, 2000) i ON CONFLICT (a, b) DO UPDATE SET c = uq.c || excluded.c;
SELECT dig('TABLE uq');
UPDATE uq SET a = a + 1 WHERE a BETWEEN 10 AND 12;
DELETE FROM uq WHERE a = 13;
UPDATE uq SET a = 13, b = 3 WHERE a = 14;
SELECT dig('TABLE uq');

-- Foreign keys: bulk load of both sides, initial check, not valid.
CREATE TABLE pk (id int PRIMARY KEY, x text);
CREATE TABLE fk (id int, p int REFERENCES pk ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO pk SELECT i, 'x' FROM generate_series(1,1000) i;
INSERT INTO fk SELECT i, i % 1000 + 1 FROM generate_series(1,3000) i;
INSERT INTO fk SELECT i, i % 1001 + 1 FROM generate_series(1,3000) i;
\if :cold
    CALL howdah.compact('ex');
    CALL howdah.compact('t');
    CALL howdah.compact('uq');
    CALL howdah.compact('pk');
    CALL howdah.compact('fk');
\endif
DELETE FROM pk WHERE id BETWEEN 100 AND 200;
UPDATE pk SET id = id + 5000 WHERE id > 900;
SELECT dig('TABLE fk'), dig('TABLE pk');
ALTER TABLE fk DROP CONSTRAINT fk_p_fkey;
INSERT INTO fk VALUES (-1, -1);
ALTER TABLE fk ADD FOREIGN KEY (p) REFERENCES pk NOT VALID;
ALTER TABLE fk VALIDATE CONSTRAINT fk_p_fkey;
DELETE FROM fk WHERE id = -1;
ALTER TABLE fk VALIDATE CONSTRAINT fk_p_fkey;
TRUNCATE pk;
TRUNCATE pk CASCADE;
SELECT dig('TABLE fk'), dig('TABLE pk');

-- Locks and self modifications inside loads.
CREATE TABLE sm (id int PRIMARY KEY, w text);
CREATE FUNCTION selfmod(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF i % 100 = 50 THEN UPDATE sm SET w = 'u' || i WHERE id BETWEEN i - 9 AND i - 5; DELETE FROM sm WHERE id BETWEEN i - 4 AND i - 2; PERFORM 1 FROM sm WHERE id = i - 20 FOR UPDATE; INSERT INTO sm VALUES (-i, 'x'); INSERT INTO sm VALUES (i - 30, 'y') ON CONFLICT (id) DO UPDATE SET w = 'conf'; END IF; RETURN i; END $$;
INSERT INTO sm SELECT selfmod(i), 'w' FROM generate_series(1,1000) i;
SELECT dig('TABLE sm');
BEGIN;
INSERT INTO sm SELECT selfmod(i), 'w' FROM generate_series(1001,2000) i;
SAVEPOINT a;
INSERT INTO sm SELECT selfmod(i), 'w' FROM generate_series(2001,3000) i;
INSERT INTO sm SELECT selfmod(i), 'w' FROM generate_series(3001,4000) i;
SELECT dig('TABLE sm');
ROLLBACK TO a;
SELECT dig('TABLE sm');
INSERT INTO sm SELECT selfmod(i), 'w' FROM generate_series(2001,3000) i;
RELEASE a;
INSERT INTO sm SELECT selfmod(i), 'w' FROM generate_series(3001,4000) i;
COMMIT;
SELECT dig('TABLE sm');
SET enable_seqscan = off;
SELECT dig('SELECT * FROM sm WHERE id > -100000');
RESET enable_seqscan;
VACUUM sm;
SELECT dig('TABLE sm');
\if :cold
    CALL howdah.compact('ex');
    CALL howdah.compact('t');
    CALL howdah.compact('uq');
    CALL howdah.compact('pk');
    CALL howdah.compact('fk');
    CALL howdah.compact('sm');
\endif
SELECT dig('TABLE sm');
DELETE FROM sm;
SELECT dig('TABLE sm');
VACUUM sm;
INSERT INTO sm SELECT selfmod(i), 'w' FROM generate_series(1001,2000) i;
SELECT dig('TABLE sm');

-- Values at the edges of every type, as they are shown and compared.
CREATE TABLE ty (n numeric, n2 numeric(20,5), f4 float4, f8 float8, d date, ts timestamp, tz timestamptz, iv interval, tm time, tt timetz, bt bytea, bo bool, ch "char", nm name, b3 bit(3), vb varbit, mc macaddr, pt point, x xid, cd cid, tq tsquery, jp jsonpath, js json, rg regtype, mon money, c char(4), vc varchar(4), e text, o oidvector, i2 int2vector);
INSERT INTO ty SELECT (ARRAY['1.10','1.1','0.000','NaN','Infinity','-Infinity','1e-20','123456789012345678901234567890.123456789','-0.0',NULL])[i % 10 + 1]::numeric, (ARRAY['1.1','NaN','-5.55555',NULL])[i % 4 + 1]::numeric, (ARRAY['NaN','Infinity','-Infinity','-0','1e-45','3.4e38'])[i % 6 + 1]::float4, (ARRAY['NaN','Infinity','-Infinity','-0','5e-324','1.7e308'])[i % 6 + 1]::float8, (ARRAY['infinity','-infinity','4713-01-01 BC','5874897-12-31'])[i % 4 + 1]::date, (ARRAY['infinity','-infinity','4713-01-01 BC','294276-12-31 23:59:59.999999'])[i % 4 + 1]::timestamp, (ARRAY['infinity','-infinity','1970-01-01 00:00:00.000001+00'])[i % 3 + 1]::timestamptz, (ARRAY['infinity','-infinity','1 mon -1 day 00:00:01','178000000 years','0'])[i % 5 + 1]::interval, (ARRAY['00:00','24:00','12:34:56.789'])[i % 3 + 1]::time, (ARRAY['00:00+15','24:00-15:59:59','12:34:56.789+00'])[i % 3 + 1]::timetz, decode(repeat('00', i % 40), 'hex'), i % 3 = 0, (ARRAY['', 'a', E'\\377'])[i % 3 + 1]::"char", ('name' || i)::name, (i % 8)::bit(3), repeat('1', i % 70)::varbit, '08:00:2b:01:02:03', point(i, 'NaN'), i::text::xid, i::text::cid, 'a & b', '$.a[*]', '{"b":1, "a" : 2,  "b":3}', 'int4', i, 'c', 'v', repeat('é', i % 5), '1 2 3', '4 5' FROM generate_series(1,600) i;
SELECT dig('TABLE ty');
SELECT dig('SELECT n, scale(n), min_scale(n) FROM ty'), dig('SELECT f4, f8, sign(f8), pg_column_size(n) > 0 FROM ty');
SELECT n, count(*) FROM ty GROUP BY n ORDER BY n;
SELECT iv, count(*) FROM ty GROUP BY iv ORDER BY iv;
SELECT sum(n2), avg(n2), min(n), max(n), max(d), min(ts), max(iv) FROM ty WHERE n <> 'NaN' AND n2 <> 'NaN';
SELECT js FROM ty LIMIT 1;
SELECT dig('SELECT * FROM ty WHERE n > 1'), dig('SELECT * FROM ty WHERE d = ''infinity'' OR ts < ''2020-01-01'''), dig('SELECT * FROM ty WHERE f8 = ''NaN'''), dig('SELECT * FROM ty WHERE f8 >= 0'), dig('SELECT * FROM ty WHERE c = ''c   '''), dig('SELECT * FROM ty WHERE ch = ''a'''), dig('SELECT * FROM ty WHERE bt > ''\x00''');

-- ANALYZE: the statistics are those of heap.
CREATE TABLE an AS SELECT i AS id, i % 7 AS few, CASE WHEN i % 3 = 0 THEN 'common' ELSE 'w' || i % 50 END AS w, NULLIF(i % 4, 0) AS nn FROM generate_series(1,20000) i;
\if :cold
    CALL howdah.compact('ex');
    CALL howdah.compact('t');
    CALL howdah.compact('uq');
    CALL howdah.compact('pk');
    CALL howdah.compact('fk');
    CALL howdah.compact('sm');
    CALL howdah.compact('ty');
    CALL howdah.compact('an');
\endif
ANALYZE an;
SELECT attname, null_frac, n_distinct, avg_width, most_common_vals::text, most_common_freqs FROM pg_stats WHERE schemaname = 'indexed' AND tablename='an' AND attname IN ('few','nn','w') ORDER BY 1;
SELECT reltuples FROM pg_class WHERE relname='an' AND relnamespace='indexed'::regnamespace;
SELECT attname, n_distinct, correlation > 0.9 FROM pg_stats WHERE schemaname = 'indexed' AND tablename='an' AND attname='id';

DROP SCHEMA indexed CASCADE;
