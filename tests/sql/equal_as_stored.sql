-- Types of which the equality is that of stored values, and the order is not: char(n), of which blanks at the end do not count, enums,
-- oids, "char", addresses. equal_as_stored_on_heap.sql is this file by another name.
CREATE SCHEMA equal_as_stored;
SET search_path = equal_as_stored, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
\set vectorized :directory '/sql/vectorized.psql'
\i :vectorized
CREATE COLLATION ignoring_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE DOMAIN code AS char(5);
CREATE DOMAIN loose AS bpchar;
CREATE TABLE t (id int, a char, c char(5), d char(5), w char(9), u char(4), n char(5) COLLATE ignoring_case, b bpchar, o code, l loose, v varchar(9), k int);
INSERT INTO t SELECT i, chr(65 + i % 3), 'c' || i % 4, 'c' || i % 3, 'c' || i % 5, repeat(chr(228 + i % 2), i % 5), CASE i % 3 WHEN 0 THEN 'x' WHEN 1 THEN 'X' END,
    'b' || repeat(' ', i % 3), 'c' || i % 4, 'l' || repeat(' ', i % 2), 'c' || i % 4 || repeat(' ', i % 2), i % 100
FROM generate_series(1, 3000) i;
INSERT INTO t (id, c) VALUES (3001, ''), (3002, E'c1\t'), (3003, E'c1\u00a0'), (3004, NULL), (3005, 'c1   '), (3006, '     ');
UPDATE t SET c = E'c\t' WHERE id % 701 = 0;
\if :cold
    CALL howdah.compact('t');
\endif
-- Hot rows, too.
SET howdah.load_threshold = 1000000;
INSERT INTO t SELECT id + 4000, a, d, c, w, u, n, b, o, l, v, k FROM t WHERE id % 30 = 1;
UPDATE t SET c = d WHERE id % 97 = 0;
DELETE FROM t WHERE id % 89 = 0;
ANALYZE t;

-- Conditions, by the engine, by a ColumnarScan, and by neither.
CREATE TABLE conditions (n int, condition text) USING heap;
INSERT INTO conditions SELECT row_number() OVER (), condition FROM unnest(ARRAY[
    $$c = 'c1'$$, $$'c1' = c$$, $$c = 'c1       '$$, $$c = 'c1   x'$$, $$c = ''$$, $$c = ' '$$, $$c <> 'c1'$$, $$c <> 'c1   x'$$, $$c = NULL$$,
    $$c = E'c1\t'$$, $$c = E'c1\u00a0'$$, $$c = 'c1'::char(9)$$, $$c = 'c1'::char(1)$$, $$c = 'c1'::varchar$$, $$c = 'c1 '::text$$,
    $$c::text = 'c1'$$, $$c::text = 'c1 '$$, $$c::varchar = 'c1'$$, $$rtrim(v) = 'c1'$$, $$v = 'c1'$$, $$v::bpchar = 'c1'$$, $$v::char(2) = c$$,
    $$c IN ('c1', 'c2   ')$$, $$c IN ('c1', NULL)$$, $$c NOT IN ('c1', 'c2          ')$$, $$c NOT IN ('c1', NULL)$$, $$c = ANY ('{}')$$, $$c <> ALL ('{}')$$,
    $$c = ANY (NULL)$$, $$c = ALL (ARRAY['c1', 'c1 ']::bpchar[])$$, $$c <> ANY (ARRAY['c1', 'c2']::bpchar[])$$, $$c = ANY (ARRAY(SELECT 'c' || i FROM generate_series(0, 99, 3) i)::bpchar[])$$,
    $$c = d$$, $$c <> d$$, $$c = w$$, $$c = o$$, $$c = a$$, $$c = b$$, $$d = d$$, $$c = v$$,
    $$a = 'A'$$, $$a = 'A  '$$, $$a = 'AB'$$, $$u = 'ää'$$, $$u = 'ää  '$$, $$u = ''$$, $$u = 'äää    '$$, $$u IN ('ä', 'åå', 'äääää')$$, $$length(u) = 2$$, $$u::text = 'åå'$$,
    $$n = 'x'$$, $$n <> 'X '$$, $$n IN ('X', 'y')$$, $$n::text = 'x'$$, $$b = 'b'$$, $$b = 'b '$$, $$b IN ('b  ', 'x')$$, $$b <> 'b'$$, $$o = 'c1'$$, $$o IN ('c1 ', 'c2')$$, $$l = 'l'$$,
    $$c < 'c1'$$, $$c <= 'c'$$, $$c > E'c\t'$$, $$c BETWEEN 'c1' AND 'c2'$$, $$c LIKE 'c1%'$$, $$c LIKE 'c1   '$$, $$c LIKE 'c1'$$, $$c NOT LIKE '%1 %'$$,
    $$c COLLATE "C" = 'c1'$$, $$c COLLATE ignoring_case = 'C1'$$, $$c IS NULL$$, $$c IS NOT DISTINCT FROM 'c1'$$, $$c IS DISTINCT FROM 'c1'$$,
    $$c = 'c1' OR k = 7$$, $$NOT (c = 'c1' AND k < 50)$$, $$(c = 'c1') IS NOT TRUE$$, $$CASE WHEN c = 'c1' THEN k ELSE 0 END > 5$$, $$coalesce(c, 'c1') = 'c1'$$]) condition;
CREATE FUNCTION answers() RETURNS TABLE (condition text, rows bigint, ids bigint, few text) LANGUAGE plpgsql AS $$
BEGIN
    FOR condition IN SELECT c.condition FROM conditions c ORDER BY n LOOP
        EXECUTE 'SELECT count(*), sum(id) FROM t WHERE ' || condition INTO rows, ids;
        few := dig('SELECT id, c, w FROM t WHERE ' || condition || ' AND k % 5 = 1');
        RETURN NEXT;
    END LOOP;
END $$;
SELECT * FROM answers();
SELECT md5(string_agg(answers::text, ' ')) AS all_of_them FROM answers();
SET howdah.vectorized = off;
SELECT md5(string_agg(answers::text, ' ')) AS by_columns FROM answers();
SET howdah.columnar_scan = off;
SELECT md5(string_agg(answers::text, ' ')) AS row_by_row FROM answers();
RESET howdah.columnar_scan;
RESET howdah.vectorized;

-- Groups.
SELECT taken('SELECT c, count(*) FROM t GROUP BY 1') = :cold AS as_expected, taken('SELECT DISTINCT a, u FROM t') = :cold AS as_expected,
    taken('SELECT n, count(*) FROM t GROUP BY 1') AS by_case, taken('SELECT b, count(*) FROM t GROUP BY 1') AS of_any_length, taken('SELECT o, count(*) FROM t GROUP BY 1') AS of_a_domain;
SELECT c, '|' AS end, octet_length(c), count(*), sum(id) FROM t GROUP BY 1 ORDER BY c COLLATE "C", 2;
SELECT a, u, '|' AS end, count(*) FILTER (WHERE c = 'c1'), sum(CASE WHEN c = 'c2' THEN k END) FROM t GROUP BY 1, 2 ORDER BY a, u COLLATE "C";
SELECT dig('SELECT DISTINCT c, d FROM t'), dig('SELECT DISTINCT o, a FROM t'), dig('SELECT upper(n) FROM (SELECT DISTINCT n FROM t) x'), dig('SELECT rtrim(b) FROM (SELECT DISTINCT b FROM t) x');
SELECT c::text, count(*) FROM t GROUP BY 1 ORDER BY c::text COLLATE "C";
SELECT count(c), count(DISTINCT c), min(c COLLATE "C"), max(c COLLATE "C"), min(c::text COLLATE "C"), max(octet_length(c::text)) FROM t;
SELECT id, c FROM t ORDER BY c COLLATE "C", id LIMIT 5;

-- Parameters, also of other types and lengths.
SET plan_cache_mode = force_generic_plan;
PREPARE equal(bpchar) AS SELECT count(*), sum(id) FROM t WHERE c = $1;
EXECUTE equal('c1'); EXECUTE equal('c1      '); EXECUTE equal('c1   x'); EXECUTE equal(NULL);
PREPARE listed(char(3)[]) AS SELECT count(*), sum(id) FROM t WHERE c = ANY ($1);
EXECUTE listed('{c1,c2}'); EXECUTE listed('{c1,NULL}'); EXECUTE listed(NULL);
PREPARE text_equal(varchar) AS SELECT count(*), sum(id) FROM t WHERE c = $1;
EXECUTE text_equal('c1'); EXECUTE text_equal('c1 ');
RESET plan_cache_mode;

-- The length is taken off, and given anew: values of other lengths come and go.
ALTER TABLE t ALTER COLUMN c TYPE bpchar;
INSERT INTO t (id, c) SELECT 9000 + i, 'c1' || repeat(' ', i % 4) FROM generate_series(1, 40) i;
\if :cold
    CALL howdah.compact('t');
\endif
SELECT count(*), sum(id) FROM t WHERE c = 'c1';
SELECT rtrim(c), count(*) FROM (SELECT c, count(*) FROM t GROUP BY 1) x GROUP BY 1 ORDER BY rtrim(c) COLLATE "C";
ALTER TABLE t ALTER COLUMN c TYPE char(3) USING left(c, 3);
SELECT count(*), sum(id) FROM t WHERE c = 'c1';
SET howdah.load_threshold = 100;
ALTER TABLE t ALTER COLUMN c TYPE char(6);
SELECT taken('SELECT c, count(*) FROM t GROUP BY 1') = :cold AS as_expected;
SELECT c, '|' AS end, count(*) FROM t GROUP BY 1 ORDER BY c COLLATE "C";
ALTER TABLE t ADD COLUMN z char(4) DEFAULT 'z';
SELECT count(*) FROM t WHERE z = 'z';
SELECT z, '|' AS end, count(*) FROM t GROUP BY 1;

-- Partitions of both kinds.
CREATE TABLE p (id int, c char(4)) PARTITION BY LIST (c);
CREATE TABLE p1 PARTITION OF p FOR VALUES IN ('a', 'b ');
CREATE TABLE p2 PARTITION OF p FOR VALUES IN ('c') USING heap;
INSERT INTO p SELECT i, chr(97 + i % 3) FROM generate_series(1, 900) i;
SELECT c, '|' AS end, count(*) FROM p GROUP BY 1 ORDER BY 1;
SELECT count(*), sum(id) FROM p WHERE c IN ('a  ', 'c');

-- Enums, whose labels are in another order than their numbers; oids and what is stored like them; "char".
CREATE TYPE mood AS ENUM ('fine', 'sad');
ALTER TYPE mood ADD VALUE 'glad' BEFORE 'fine';
ALTER TYPE mood ADD VALUE 'none' AFTER 'fine';
CREATE DOMAIN known_mood AS mood CHECK (VALUE <> 'none');
CREATE TABLE e (id int, m mood, n mood, d known_mood, o oid, r regclass, c "char", a inet, b cidr, i int);
INSERT INTO e SELECT x, (enum_range(NULL::mood))[1 + x % 5], (enum_range(NULL::mood))[1 + x % 4], (ARRAY['sad', 'glad'])[1 + x % 2]::mood, 4294967290 + x % 6,
    (ARRAY['pg_class', 'pg_proc', NULL])[1 + x % 3]::regclass, chr(120 + x % 9)::"char",
    (ARRAY['10.0.0.1', '10.0.0.1/8', '10.0.0.0/8', '::1', '::ffff:10.0.0.1', NULL])[1 + x % 6]::inet, (ARRAY['10.0.0.0/8', '10.0.0.1', '::1'])[1 + x % 3]::cidr, x % 6 - 3 FROM generate_series(1, 2000) x;
SET howdah.load_threshold = 1000000;
INSERT INTO e SELECT id + 5000, n, m, d, o, r, c, a, b, i FROM e WHERE id % 40 = 1;
DELETE FROM e WHERE id % 77 = 0;
UPDATE e SET m = 'glad' WHERE id % 91 = 0;
ANALYZE e;
SELECT taken('SELECT m, count(*) FROM e GROUP BY 1') = :cold AS as_expected, taken('SELECT d, o, c, count(*) FROM e GROUP BY 1, 2, 3') = :cold AS as_expected,
    taken('SELECT a, b, count(*) FROM e GROUP BY 1, 2') = :cold AS as_expected, taken('SELECT r, count(*) FROM e GROUP BY 1') AS of_regclass, taken('SELECT m, count(*) FROM e GROUP BY 1 ORDER BY 1 LIMIT 2') = :cold AS first;
SELECT m, count(*), sum(id) FROM e GROUP BY 1 ORDER BY 1;
SELECT d, m, count(*) FILTER (WHERE n = 'sad'), sum(CASE m WHEN 'glad' THEN id WHEN 'fine' THEN 1 END) FROM e GROUP BY 1, 2 ORDER BY 1, 2;
SELECT o, c, count(*) FROM e GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 7;
SELECT r, count(*) FROM e GROUP BY 1 ORDER BY 1;
SELECT a, b, count(*), sum(id) FROM e GROUP BY 1, 2 ORDER BY 1, 2;
SELECT dig('SELECT DISTINCT a, m FROM e'), max(a), count(a) FILTER (WHERE a <> '::1') FROM e;
SELECT m, count(*) FROM e GROUP BY 1 ORDER BY 1 LIMIT 2;
SELECT min(m), max(m), count(DISTINCT m), min(c), max(o) FROM e;
TRUNCATE conditions;
INSERT INTO conditions SELECT row_number() OVER (), condition FROM unnest(ARRAY[
    $$m = 'sad'$$, $$'sad' <> m$$, $$m IN ('sad', 'none')$$, $$m NOT IN ('sad', 'none')$$, $$m NOT IN ('sad', NULL)$$, $$m = ANY (NULL)$$, $$m = n$$, $$m <> n$$, $$m < 'fine'$$, $$m >= n$$, $$d = 'sad'$$,
    $$d <> m$$, $$m = 'sad' OR i > 1$$, $$(m = n) IS NOT FALSE$$, $$m::text = 'sad'$$, $$m = 'no such'$$, $$o = 4294967291$$, $$o IN (4294967295, 4294967290)$$, $$o <> 4294967291$$, $$o > 4294967291$$, $$r = 'pg_class'::regclass$$,
    $$r <> 1259$$, $$r IN ('pg_proc', 'pg_type')$$, $$o = r$$, $$i = o$$, $$i::oid = 4294967295$$, $$c = 'x'$$, $$c <> 'x'$$, $$c IN ('x', 'y')$$, $$c < 'y'$$, $$c = ''$$,
    $$a = '10.0.0.1'$$, $$a = '10.0.0.1/32'$$, $$a = '10.0.0.1/8'$$, $$a <> '10/8'::cidr$$, $$a IN ('::1', '10.0.0.1')$$, $$a NOT IN ('::1', '10.0.0.1/8')$$, $$a = b$$, $$a <> b$$, $$b = '10.0.0.1'$$, $$b IN ('10/8', '::2')$$,
    $$a < '10.0.0.1'$$, $$a << '10/8'$$, $$host(a) = '10.0.0.1'$$, $$a = NULL$$]) condition;
CREATE OR REPLACE FUNCTION answers() RETURNS TABLE (condition text, rows bigint, ids bigint, few text) LANGUAGE plpgsql AS $$
BEGIN
    FOR condition IN SELECT c.condition FROM conditions c ORDER BY n LOOP
        BEGIN
            EXECUTE 'SELECT count(*), sum(id) FROM e WHERE ' || condition INTO rows, ids;
            few := dig('SELECT id, m, o FROM e WHERE ' || condition || ' AND i = 1');
        EXCEPTION WHEN OTHERS THEN few := SQLERRM;
        END;
        RETURN NEXT;
    END LOOP;
END $$;
SELECT * FROM answers();
SELECT md5(string_agg(answers::text, ' ')) AS all_of_them FROM answers();
SET howdah.vectorized = off;
SELECT md5(string_agg(answers::text, ' ')) AS by_columns FROM answers();
SET howdah.columnar_scan = off;
SELECT md5(string_agg(answers::text, ' ')) AS row_by_row FROM answers();
RESET howdah.columnar_scan;
RESET howdah.vectorized;

-- Long columns are left to PostgreSQL: each value of a list would get as many blanks.
CREATE TABLE long (c char(256), d char(257));
INSERT INTO long SELECT 'c' || i % 50, 'c' || i % 50 FROM generate_series(1, 2000) i;
\if :cold
    CALL howdah.compact('long');
\endif
ANALYZE long;
SELECT count(*) FILTER (WHERE c = 'c7  ') AS c, count(*) FILTER (WHERE d = 'c7  ') AS d FROM long;
SELECT count(*) FROM long WHERE c IN ('c7', 'c8   ', 'c99');
SELECT count(*) FROM long WHERE d IN ('c7', 'c8   ', 'c99');
DROP SCHEMA equal_as_stored CASCADE;
