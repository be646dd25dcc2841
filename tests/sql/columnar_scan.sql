-- ColumnarScan: plans, pushed clauses, and the same rows as heap.
SET client_min_messages = warning;
SET howdah.load_threshold = 100;
SET max_parallel_workers_per_gather = 0;
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
CREATE SCHEMA columnar_scan;
SET search_path = columnar_scan, public;
SET howdah.vectorized = off;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');

CREATE TABLE h (
    id int, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric, n2 numeric(12,2),
    d date, ts timestamp, tz timestamptz, tm time, u uuid, t text, v varchar(20), p char(5),
    by bytea, m mood, o oid, ch "char", j jsonb, a int[]);
INSERT INTO h SELECT i, i % 2 = 0, i % 100, i * 7 % 1000, i * 1000000000::int8, i % 50 / 4.0::float4,
    i % 1000 / 8.0, i % 77 / 10.0, i % 500, date '2024-01-01' + i % 400,
    timestamp '2024-01-01' + i % 500 * interval '6 hours', timestamptz '2024-01-01 00:00+00' + i * interval '1 minute',
    time '00:00' + i % 86400 * interval '1 second', md5((i % 300)::text)::uuid, 'text ' || i % 40, 'v' || i % 30,
    'p' || i % 9, decode(md5((i % 60)::text), 'hex'), (ARRAY['sad','ok','happy'])[i % 3 + 1]::mood, i % 20, chr(97 + i % 26)::"char",
    jsonb_build_object('k', i % 10), ARRAY[i, i % 3]
    FROM generate_series(1, 30000) i;
-- The edges of every type, and NULL in every column.
INSERT INTO h (id) SELECT 40000 + i FROM generate_series(1, 200) i;
INSERT INTO h SELECT 50000 + i, NULL, (ARRAY[-32768, 32767, 0])[i % 3 + 1], (ARRAY[-2147483648, 2147483647, 0])[i % 3 + 1],
    (ARRAY[-9223372036854775808, 9223372036854775807, 0])[i % 3 + 1],
    (ARRAY['NaN', 'Infinity', '-Infinity', '-0', '0'])[i % 5 + 1]::float4, (ARRAY['NaN', 'Infinity', '-Infinity', '-0', '0'])[i % 5 + 1]::float8,
    (ARRAY['1.10', '1.1', '0', '0.000', '-1', '99999999999999999999999999999999999999'])[i % 6 + 1]::numeric, 0.00,
    (ARRAY['infinity', '-infinity', '2024-02-29', '4713-01-01 BC'])[i % 4 + 1]::date,
    (ARRAY['infinity', '-infinity', '2024-02-29 00:00', '2024-02-29 23:59:59.999999'])[i % 4 + 1]::timestamp,
    (ARRAY['infinity', '-infinity', '2024-02-29 00:00+00'])[i % 3 + 1]::timestamptz, (ARRAY['00:00', '24:00'])[i % 2 + 1]::time,
    (ARRAY['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'])[i % 2 + 1]::uuid,
    (ARRAY['', ' ', 'ä', E'\U0001F418', repeat('long ', 30)])[i % 5 + 1], (ARRAY['', 'é', 'V'])[i % 3 + 1], '', ''::bytea, 'happy', 4294967295, '', NULL, '{}'
    FROM generate_series(1, 600) i;
-- Numerics that row groups keep as images: only PostgreSQL compares them.
INSERT INTO h (id, n) SELECT 60000 + i, (ARRAY['NaN', 'Infinity', '-Infinity', '1e50', '-1e-60'])[i % 5 + 1]::numeric FROM generate_series(1, 50) i;
CREATE TABLE c (LIKE h) USING howdah;
-- Several groups of several zones, and some hot rows.
SET howdah.row_group_bytes = '4MB';
INSERT INTO c SELECT * FROM h LIMIT 100;
INSERT INTO c SELECT * FROM h OFFSET 100;
ANALYZE h;
ANALYZE c;

-- Every predicate on both tables: the number of differing rows, and how the table was read.
CREATE FUNCTION differ(predicate text, OUT differing int8, OUT rows int8, OUT pushed text) LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
    EXECUTE format('SELECT count(*) FROM ((SELECT id FROM c WHERE %1$s EXCEPT ALL SELECT id FROM h WHERE %1$s)
        UNION ALL (SELECT id FROM h WHERE %1$s EXCEPT ALL SELECT id FROM c WHERE %1$s)) x', predicate) INTO differing;
    EXECUTE format('SELECT count(*) FROM c WHERE %s', predicate) INTO rows;
    pushed := 'no';
    FOR line IN EXECUTE format('EXPLAIN (COSTS OFF) SELECT * FROM c WHERE %s', predicate) LOOP
        IF line ~ 'Pushed Filter' THEN pushed := 'yes'; END IF;
        IF line ~ ' Filter:' AND line !~ 'Pushed' THEN pushed := pushed || ', filter'; END IF;
        IF line ~ 'Seq Scan on c' THEN pushed := 'seq scan'; END IF;
    END LOOP;
END $$;

-- Every operator on every type.
WITH operators(op) AS (VALUES ('='), ('<>'), ('<'), ('<='), ('>'), ('>=')),
operands(expr) AS (VALUES
    ('i2 %s 50::int2'), ('i2 %s 50'), ('i2 %s 50::int8'), ('i2 %s 100000'), ('i4 %s 500::int2'), ('i4 %s 500'), ('i4 %s 500::int8'),
    ('i4 %s 5000000000'), ('i8 %s 7::int2'), ('i8 %s 1000000000'), ('i8 %s 15000000000000'), ('i8 %s 9223372036854775807'),
    ('f4 %s 5.25::float4'), ('f4 %s 5.25::float8'), ('f4 %s 0.1::float8'), ('f4 %s ''NaN''::float4'), ('f4 %s ''Infinity''::float8'),
    ('f8 %s 62.5'), ('f8 %s 62.5::float4'), ('f8 %s 0'), ('f8 %s ''-0''::float8'), ('f8 %s ''NaN'''), ('f8 %s ''-Infinity'''),
    ('n %s 3.5'), ('n %s 3.50'), ('n %s 1.1'), ('n %s 0'), ('n %s ''NaN'''), ('n %s ''Infinity'''), ('n %s 1e60'), ('n2 %s 250.00'),
    ('d %s date ''2024-06-01'''), ('d %s timestamp ''2024-06-01'''), ('d %s timestamp ''2024-06-01 00:00:01'''),
    ('d %s date ''infinity'''), ('d %s timestamp ''infinity'''), ('d %s timestamp ''-infinity'''), ('d %s date ''5874897-12-31'''),
    ('ts %s timestamp ''2024-03-01 06:00'''), ('ts %s date ''2024-03-01'''), ('ts %s date ''infinity'''), ('ts %s timestamp ''-infinity'''),
    ('ts %s date ''5874897-12-31'''), ('tz %s timestamptz ''2024-01-05 00:00+00'''), ('tz %s date ''2024-01-05'''), ('tm %s time ''12:00'''),
    ('u %s md5(''7'')::uuid'), ('t %s ''text 7'''), ('t %s '''''), ('t COLLATE "C" %s ''text 7'''), ('t COLLATE "C" %s ''ä'''),
    ('v %s ''v7'''), ('v COLLATE "POSIX" %s ''v7'''), ('p %s ''p7'''), ('by %s decode(md5(''7''), ''hex'')'), ('m %s ''ok'''), ('o %s 7'),
    ('ch %s ''c'''), ('b %s true'), ('500 %s i4'), ('date ''2024-06-01'' %s d'), ('date ''2024-03-01'' %s ts'), ('timestamp ''2024-06-01 12:00'' %s d'))
SELECT predicate, d.* FROM operands, operators, format(expr, op) predicate, differ(predicate) d ORDER BY expr, op;

-- LIKE.
WITH columns(name) AS (VALUES ('t'), ('v'), ('p'), ('t COLLATE "C"')),
patterns(pattern) AS (VALUES ('text 1%'), ('%ext%'), ('%7'), ('%'), (''), ('text 7'), ('p7   '), ('t%x% 3%5'), ('%long %long%'), ('ä%'), ('%é'),
    ('%🐘%'), ('_ext 1%'), ('te\xt%'), ('%\%'), ('text\_%'), ('zz%'), ('V'))
SELECT predicate, d.* FROM columns, patterns, format('%s LIKE %L', name, pattern) predicate, differ(predicate) d ORDER BY name, pattern COLLATE "C";
SELECT predicate, d.* FROM (VALUES ('t LIKE NULL'), ('t NOT LIKE ''%7'''), ('t NOT LIKE ''text 7'''), ('v NOT LIKE NULL'), ('p NOT LIKE ''p7%'''), ('t NOT LIKE ''_ext 1%'''), ('NOT t LIKE ''text 1%'''), ('t ILIKE ''TEXT 1%'''), ('t LIKE ''text 1%'' AND t LIKE ''%5'''),
    ('t LIKE ''text 1%'' OR i4 = 7'), ('j::text LIKE ''%7%'''), ('''text 7'' LIKE t'), ('t ~~ any (array[''%7'', ''%8''])'), ('by LIKE ''%a%''::bytea')) v(predicate), differ(predicate) d;
SELECT count(*) FROM c WHERE t LIKE 'text\';
PREPARE like_this(text) AS SELECT count(*) FROM c WHERE t LIKE $1;
SET plan_cache_mode = force_generic_plan;
EXECUTE like_this('%ext 1%');
EXECUTE like_this('_ext 1%');
EXECUTE like_this(NULL);
RESET plan_cache_mode;

-- A few rows of a large group are read without its chunks: pages that were looked at, of those that there are.
CREATE TABLE noise (id int, k int, list int[], word text, doc jsonb, price numeric) USING howdah;
SET howdah.row_group_bytes = '64MB';
INSERT INTO noise SELECT i, hashint4(i), ARRAY[i, hashint4(i)], CASE WHEN i % 10 > 0 THEN md5(i::text) || md5((-i)::text) END,
    jsonb_build_object('name', md5(i::text), 'n', i), hashint4(i) / 1000.0 FROM generate_series(1, 60000) i;
RESET howdah.row_group_bytes;
CREATE FUNCTION pages_read(query text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ' || query INTO plan;
    RETURN (plan->0->'Plan'->>'Shared Hit Blocks')::int + (plan->0->'Plan'->>'Shared Read Blocks')::int;
END $$;
SELECT pages_read('SELECT * FROM noise') > 500 AS whole_scan_reads_all;
SELECT query, pages_read('SELECT * FROM noise WHERE ' || query) < 150 AS reads_few FROM (VALUES ('id BETWEEN 30000 AND 30020'), ('id = 59999'), ('id IN (3, 40000)'),
    ('id BETWEEN 100 AND 200 AND k > 0 AND word LIKE ''%a%''')) v(query);
SELECT count(*), sum(id), sum(list[2]), count(word), md5(string_agg(word, ',' ORDER BY id)), md5(string_agg(doc::text, ',' ORDER BY id)), sum(price)
    FROM noise WHERE id BETWEEN 30000 AND 30200 AND k > 0;
SELECT count(*), sum(i), sum(hashint4(i)::int8), count(*) FILTER (WHERE i % 10 > 0), md5(string_agg(CASE WHEN i % 10 > 0 THEN md5(i::text) || md5((-i)::text) END, ',' ORDER BY i)),
    md5(string_agg(jsonb_build_object('name', md5(i::text), 'n', i)::text, ',' ORDER BY i)), sum(hashint4(i) / 1000.0)
    FROM generate_series(30000, 30200) i WHERE hashint4(i) > 0;
-- Rows that are hidden, and columns that the group does not have.
DELETE FROM noise WHERE id = 30007;
ALTER TABLE noise ADD COLUMN late int DEFAULT 5;
SELECT id, word IS NULL AS is_null, late FROM noise WHERE id BETWEEN 30005 AND 30010 AND late = 5 ORDER BY id;
SELECT count(*) FROM noise WHERE id BETWEEN 30005 AND 30010 AND late = 6;
DROP TABLE noise;

-- Other shapes.
SELECT predicate, d.* FROM unnest(ARRAY[
    'b', 'NOT b', 'b IS TRUE', 'b IS FALSE', 'b IS NOT TRUE', 'b IS NOT FALSE', 'b IS UNKNOWN', 'b IS NOT UNKNOWN',
    'i4 IS NULL', 'i4 IS NOT NULL', 'n IS NULL', 't IS NULL', 'j IS NULL', 'a IS NOT NULL', 'NOT (i4 > 5)',
    'i4 = ANY (''{1,2,NULL}'')', 'i4 IN (7, 14, 21)', 'i4 NOT IN (7, 14)', 'i4 <> ALL (''{1,NULL}'')', 'i4 <> ALL (''{}'')', 'i4 = ANY (''{}'')',
    'i4 = ANY (NULL::int[])', 'i4 > ANY (''{990}'')', 't IN (''text 1'', '''')', 'v IN (''v1'', ''v2'')', 'u IN (md5(''1'')::uuid)',
    'n IN (1.1, 0, 3.5)', 'n IN (1.1, ''NaN'')', 'n NOT IN (1.1, ''NaN'')', 'm IN (''sad'', ''happy'')', 'd IN (''2024-01-05'', ''infinity'')',
    'f8 IN (''NaN'', 0, 62.5)', 'i8 IN (1000000000, 7)', 'i4 = ANY (ARRAY(SELECT generate_series(1, 200)))',
    'i4 BETWEEN 100 AND 200', 'i4 BETWEEN 200 AND 100', 'i4 = NULL', 'i4 > 100 AND i4 < 120 AND t = ''text 7''', 'i4 = 7 OR i4 = 9',
    'id + 1 = 8', 'i4 < i2', 'i4 = (SELECT 14)', 'i8 < (SELECT max(id) FROM h)', 't LIKE ''text 1%''', 'i4 < 100 AND i4 % 2 = 0',
    'j @> ''{"k": 3}''', 'id < 10', 'id > 50500', 'id = 30001', 'd >= date ''2024-12-01'' - interval ''1 month''', 'tz > now() - interval ''1 day''',
    'i4 = random()::int * 0 + 7', 'false', 'ctid IS NOT NULL', 'tableoid = ''c''::regclass OR tableoid = ''h''::regclass', 'true'
]) WITH ORDINALITY q(predicate, place), differ(predicate) d ORDER BY place;

-- Joined by OR and AND: on one column row groups evaluate all of it, with NULL among the values and zones that are left out.
CREATE TEMP TABLE joined AS SELECT place, at, q.predicate FROM unnest(ARRAY['id', 'i2', 'i4', 'i8', 'f4', 'f8', 'n', 'n2', 'd', 'ts', 'tz', 'tm', 'u', 't', 'v', 'p', 'by', 'm', 'o', 'ch']) WITH ORDINALITY c(name, place),
    LATERAL (SELECT quote_literal((array_agg(x ORDER BY k))[1]), quote_literal((array_agg(x ORDER BY k))[2]), quote_literal((array_agg(x ORDER BY k))[3])
        FROM (VALUES (1, 7), (2, 1500), (3, 29000)) w(k, wanted), LATERAL (SELECT to_jsonb(h) ->> c.name AS x FROM h WHERE h.id = wanted) of_row) picked(a, b, c),
    LATERAL unnest(ARRAY[
        format('%1$s < %2$s OR %1$s > %4$s', name, a, b, c), format('%1$s = %3$s OR %1$s IS NULL', name, a, b, c),
        format('(%1$s >= %2$s AND %1$s < %3$s) OR %1$s = %4$s OR (%1$s > %3$s AND %1$s <> %4$s AND %1$s IS NOT NULL)', name, a, b, c),
        format('NOT (%1$s < %2$s OR %1$s = %3$s)', name, a, b, c), format('%1$s = %2$s OR %1$s IN (%3$s, NULL, %4$s) OR %1$s = NULL', name, a, b, c)]) WITH ORDINALITY q(predicate, at);
SELECT at, d.pushed, count(*), sum(differing) AS differing, sum(rows) > 0 AS has_rows FROM joined, differ(predicate) d GROUP BY 1, 2 ORDER BY 1, 2;
SET howdah.vectorized = on;
SELECT at, count(*), sum(differing) AS differing, sum(rows) > 0 AS has_rows FROM joined, differ(predicate) d GROUP BY 1 ORDER BY 1;
SET howdah.vectorized = off;
SELECT predicate, d.* FROM unnest(ARRAY[
    't LIKE ''text 1%'' OR t LIKE ''%7'' OR t = ''ä''', 't NOT LIKE ''text%'' OR t IS NULL', 'b OR b IS NULL', 'NOT b OR b IS UNKNOWN', 'n = ''NaN'' OR n < 1', 'n > 1e49 OR n IS NULL',
    'i4 = 7 OR i2 = 9', 'i4 < 10 OR i4 = (SELECT 14)', 'i4 < 10 OR i4 = i2', 'i4 < 10 OR i4 > 990 + length(t)', 'id < 10 OR i4 % 2 = 0', 'id < 100 OR id > 50000 OR t = ''x''',
    '(id < 100 OR id > 50500) AND (i4 = 7 OR i4 > 990) AND (t IS NULL OR t > '''')', 'i4 <> ALL (''{}'') OR i4 = 1', 'i4 = ANY (NULL::int[]) OR i4 = 7', 'd < timestamp ''2024-01-05 12:00'' OR d >= timestamp ''2025-01-20 00:00''']) WITH ORDINALITY q(predicate, place),
    differ(predicate) d ORDER BY place;
-- A part that PostgreSQL would not come to must not fail; parameters are values.
SELECT count(*) FROM c WHERE id > 0 OR id = 30000 / (SELECT 0);
SET plan_cache_mode = force_generic_plan;
PREPARE divided(int, int) AS SELECT count(*) FROM c WHERE id < $1 OR id = 30000 / $2;
EXECUTE divided(100000, 0); EXECUTE divided(10, 2);
PREPARE given(int, int) AS SELECT count(*) FROM c WHERE id < $1 OR id > $2;
EXPLAIN (COSTS OFF) EXECUTE given(10, 50590);
EXECUTE given(10, 50590); EXECUTE given(NULL, 50590); EXECUTE given(NULL, NULL);
RESET plan_cache_mode;
EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT id FROM c WHERE id < 10 OR id BETWEEN 25000 AND 25003;

-- Long lists of every type, with NULL and the edges among them, and one that is longer than any that groups compare with.
SELECT predicate, d.* FROM unnest(ARRAY['i2', 'i4', 'i8', 'f4', 'f8', 'n2', 'd', 'ts', 'tz', 'tm', 'u', 't', 'v', 'p', 'by', 'm', 'o', 'ch']) WITH ORDINALITY c(name, place),
    LATERAL unnest(ARRAY[
        format('%1$s = ANY (ARRAY(SELECT %1$s FROM h WHERE id %% 3 = 0))', name), format('%1$s = ANY (ARRAY(SELECT %1$s FROM h WHERE id > 35000))', name),
        format('%1$s <> ALL (ARRAY(SELECT %1$s FROM h WHERE id %% 7 = 0 AND id <= 700))', name)]) WITH ORDINALITY q(predicate, at), differ(predicate) d ORDER BY place, at;
SELECT predicate, d.* FROM unnest(ARRAY[
    'd = ANY (ARRAY(SELECT ts FROM h WHERE id % 5 = 0))', 'ts = ANY (ARRAY(SELECT d FROM h WHERE id % 5 = 0))', 'i4 = ANY (ARRAY(SELECT i8 FROM h WHERE id < 900))',
    'n = ANY (ARRAY(SELECT n FROM h WHERE id < 900))', 'n = ANY (ARRAY(SELECT n FROM h))', 'i8 = ANY (ARRAY(SELECT i8 FROM h WHERE id <= 20000))',
    'u = ANY (ARRAY(SELECT md5(i::text)::uuid FROM generate_series(1000, 2000) i))'
]) WITH ORDINALITY q(predicate, place), differ(predicate) d ORDER BY place;

-- All columns: of every row, of dense, sparse and rechecked selections.
CREATE FUNCTION differ_in_full(predicate text) RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE differing int8;
BEGIN
    EXECUTE format('SELECT count(*) FROM ((SELECT c::text FROM c WHERE %1$s EXCEPT ALL SELECT h::text FROM h WHERE %1$s)
        UNION ALL (SELECT h::text FROM h WHERE %1$s EXCEPT ALL SELECT c::text FROM c WHERE %1$s)) x', predicate) INTO differing;
    RETURN differing;
END $$;
SELECT predicate, differ_in_full(predicate)
    FROM (VALUES ('true'), ('i4 <> 7'), ('i2 = 7'), ('n > 7'), ('n = $$NaN$$')) v(predicate);

-- Plans.
EXPLAIN (COSTS OFF) SELECT count(*) FROM c;
EXPLAIN (COSTS OFF) SELECT id FROM c WHERE i4 < 10 AND t LIKE '%7' AND 5 < i2;
EXPLAIN (COSTS OFF, VERBOSE) SELECT i4 + 1, tableoid::regclass FROM c AS x WHERE x.d = '2024-02-01';
EXPLAIN (COSTS OFF, ANALYZE, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT id FROM c WHERE tz < '2024-01-02';
EXPLAIN (COSTS OFF, ANALYZE, TIMING OFF, SUMMARY OFF, BUFFERS OFF) SELECT id FROM c WHERE id > 90000;
EXPLAIN (COSTS OFF, ANALYZE, TIMING OFF, SUMMARY OFF, BUFFERS OFF, FORMAT JSON) SELECT id FROM c WHERE i2 = 1 AND id < 100;
-- Statements that change or lock rows find them with it.
EXPLAIN (COSTS OFF) SELECT id FROM c WHERE i4 = 1 FOR UPDATE;
EXPLAIN (COSTS OFF) DELETE FROM c WHERE i4 = 1;
EXPLAIN (COSTS OFF) UPDATE c SET i4 = i4 + 1 WHERE i4 % 10 = 3 AND t = 'text 3';
EXPLAIN (COSTS OFF) UPDATE c SET t = h.t FROM h WHERE c.id = h.id AND c.i2 = 5 AND h.i2 = 5;
-- What they do to both tables, and how the tables differ then.
CREATE TABLE source USING heap AS SELECT * FROM h;
ANALYZE source;
CREATE FUNCTION change(statement text, OUT rows int8, OUT as_on_heap bool, OUT differing int8) LANGUAGE plpgsql AS $$
DECLARE on_heap int8;
BEGIN
    EXECUTE replace(statement, '@', 'h');
    GET DIAGNOSTICS on_heap = ROW_COUNT;
    EXECUTE replace(statement, '@', 'c');
    GET DIAGNOSTICS rows = ROW_COUNT;
    as_on_heap := rows = on_heap;
    SELECT count(*) INTO differing FROM ((SELECT hash_record_extended(c, 0) FROM c EXCEPT ALL SELECT hash_record_extended(h, 0) FROM h)
        UNION ALL (SELECT hash_record_extended(h, 0) FROM h EXCEPT ALL SELECT hash_record_extended(c, 0) FROM c)) x;
    RAISE EXCEPTION 'undone' USING ERRCODE = 'UNDON';
EXCEPTION WHEN SQLSTATE 'UNDON' THEN NULL;
END $$;
\pset format unaligned
SELECT rows, as_on_heap, differing, statement FROM (VALUES
    ('UPDATE @ SET i4 = i4 + 1 WHERE i4 % 10 = 3'),
    ('UPDATE @ SET t = t || ''!'', n = n + 1 WHERE i2 = 7 OR n = ''NaN'''),
    ('UPDATE @ SET id = -id'),
    ('UPDATE @ x SET i8 = y.id, v = y.t::varchar(20) FROM source y WHERE x.id = y.id - 1 AND x.d > ''2024-10-01'''),
    ('UPDATE @ x SET (i2, t) = (SELECT min(y.i2), max(y.t) FROM source y WHERE y.i4 = x.i4) WHERE x.id < 20'),
    ('DELETE FROM @'),
    ('DELETE FROM @ WHERE id % 2 = 0'),
    ('DELETE FROM @ x USING @ y WHERE x.id = y.id + 1 AND y.i2 = 3 AND x.tz < ''2024-01-10'''),
    ('DELETE FROM @ WHERE ctid IN (SELECT ctid FROM @ WHERE i4 < 0)'),
    ('MERGE INTO @ x USING (SELECT id * 2 AS id, t FROM source) y ON x.id = y.id WHEN MATCHED AND x.i2 < 50 THEN DELETE WHEN MATCHED THEN UPDATE SET t = y.t WHEN NOT MATCHED AND y.id > 110000 THEN INSERT (id, t) VALUES (y.id, y.t) WHEN NOT MATCHED BY SOURCE AND x.i4 < 30 THEN UPDATE SET i8 = 0'),
    ('WITH gone AS (DELETE FROM @ WHERE i2 BETWEEN 10 AND 20 RETURNING *) INSERT INTO @ SELECT * FROM gone WHERE id % 3 = 0'),
    ('WITH new AS (UPDATE @ SET id = id + 1000000 WHERE i4 = 700 RETURNING OLD.id AS old, NEW.*) DELETE FROM @ USING new WHERE @.id = new.old + 1')
) v(statement), change(statement);
\pset format aligned
SELECT i8, count(*), min(id), max(t) FROM (SELECT * FROM c WHERE i4 % 100 = 1 AND i2 < 50 FOR NO KEY UPDATE) x GROUP BY i8 ORDER BY i8 LIMIT 3;
-- Statements that are not offered it.
EXPLAIN (COSTS OFF) SELECT xmin FROM c;
EXPLAIN (COSTS OFF) SELECT id FROM c TABLESAMPLE SYSTEM (1);
CREATE TABLE hot (x int) USING howdah;
INSERT INTO hot SELECT generate_series(1, 50);
EXPLAIN (COSTS OFF) SELECT * FROM hot;
SET howdah.columnar_scan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM c;
RESET howdah.columnar_scan;

-- A table without cold rows plans as heap does, to the last cost: before there are statistics, vacuumed,
-- and analyzed.
CREATE TABLE plain_heap (id int PRIMARY KEY, k int, word text, list int[]) USING heap WITH (autovacuum_enabled = off);
CREATE TABLE plain_howdah (id int PRIMARY KEY, k int, word text, list int[]) USING howdah WITH (autovacuum_enabled = off);
CREATE FUNCTION plan_of(query text, t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; plan text := '';
BEGIN
    FOR line IN EXECUTE 'EXPLAIN ' || replace(query, '@', t) LOOP plan := plan || replace(line, t, '@') || chr(10); END LOOP;
    RETURN plan;
END $$;
-- Queries that are planned differently.
CREATE FUNCTION plan_differences() RETURNS TABLE (query text, heap text, howdah text) LANGUAGE sql AS $$
    SELECT * FROM (SELECT q, plan_of(q, 'plain_heap') AS heap, plan_of(q, 'plain_howdah') AS howdah FROM unnest(ARRAY[
        'SELECT * FROM @', 'SELECT count(*) FROM @', 'SELECT * FROM @ WHERE id = 5', 'SELECT id FROM @ WHERE id < 100',
        'SELECT sum(k) FROM @ WHERE k BETWEEN 3 AND 50', 'SELECT * FROM @ WHERE word = ''w'' OR k = 7', 'SELECT * FROM @ WHERE list && ARRAY[3]',
        'SELECT k, count(*) FROM @ GROUP BY k', 'SELECT * FROM @ ORDER BY word LIMIT 5', 'SELECT max(id) FROM @', 'SELECT DISTINCT word FROM @',
        'SELECT * FROM @ a JOIN @ b ON a.id = b.k WHERE a.k = 7', 'SELECT * FROM @ TABLESAMPLE system (10)', 'SELECT * FROM @ WHERE ctid > ''(10,1)''',
        'UPDATE @ SET k = 1 WHERE id = 5', 'DELETE FROM @ WHERE k = 3', 'SELECT * FROM @ WHERE id % 7 = 3 FOR UPDATE',
        'MERGE INTO @ USING (VALUES (1)) v (x) ON id = x WHEN MATCHED THEN DELETE', 'INSERT INTO @ SELECT id + 100000, k FROM @']) q) x
    WHERE x.heap <> x.howdah $$;
SELECT * FROM plan_differences();
SET howdah.bulk_load = off;
INSERT INTO plain_heap SELECT i, i % 1000, md5(i::text), ARRAY[i % 10, i % 7] FROM generate_series(1, 30000) i;
INSERT INTO plain_howdah SELECT i, i % 1000, md5(i::text), ARRAY[i % 10, i % 7] FROM generate_series(1, 30000) i;
RESET howdah.bulk_load;
CREATE INDEX plain_heap_k ON plain_heap (k);
CREATE INDEX plain_howdah_k ON plain_howdah (k);
CREATE INDEX plain_heap_list ON plain_heap USING gin (list);
CREATE INDEX plain_howdah_list ON plain_howdah USING gin (list);
CREATE INDEX plain_heap_brin ON plain_heap USING brin (id);
CREATE INDEX plain_howdah_brin ON plain_howdah USING brin (id);
SELECT * FROM plan_differences();
VACUUM plain_heap, plain_howdah;
SELECT * FROM plan_differences();
SET default_statistics_target = 1000;
ANALYZE plain_heap, plain_howdah;
RESET default_statistics_target;
SELECT * FROM plan_differences();
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT * FROM plan_differences();
RESET min_parallel_table_scan_size;
RESET parallel_setup_cost;
SET max_parallel_workers_per_gather = 0;

-- Whole rows, system columns, expressions.
SELECT count(*) FROM (SELECT c.*::text FROM c EXCEPT SELECT h.*::text FROM h) x;
SELECT count(DISTINCT ctid), min(tableoid::regclass::text) FROM c;
SELECT count(*) FROM c JOIN c AS again ON c.ctid = again.ctid WHERE c.id = again.id;
SELECT sum(length(t || v)), max(u::text), count(j ->> 'k') FROM c;
SELECT id, n, t, p, by, a FROM c WHERE id > 50594 AND id < 60006 ORDER BY id;

-- Parameters: custom and generic plans, nested loops, lateral.
PREPARE by_i4(int, date) AS SELECT count(*), sum(id) FROM c WHERE i4 = $1 AND d < $2;
SET plan_cache_mode = force_generic_plan;
EXPLAIN (COSTS OFF) EXECUTE by_i4(7, '2024-06-01');
EXECUTE by_i4(7, '2024-06-01');
EXECUTE by_i4(14, '2024-02-01');
EXECUTE by_i4(NULL, '2024-02-01');
RESET plan_cache_mode;
SELECT x, (SELECT count(*) FROM c WHERE c.i4 = x), (SELECT count(*) FROM h WHERE h.i4 = x) FROM generate_series(0, 21, 7) x;
SELECT x, l.count FROM generate_series(1, 3) x, LATERAL (SELECT count(*) FROM c WHERE c.i2 = x AND c.i4 > x * 100) l;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM (VALUES (1), (2)) v(x) JOIN c ON c.i2 > v.x;
SELECT count(*) FROM (VALUES (1), (2)) v(x) JOIN c ON c.i2 > v.x;
SELECT count(*) FROM (VALUES (1), (2)) v(x) JOIN h ON h.i2 > v.x;
RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material;

-- Cursors; WHERE CURRENT OF finds the row, whatever side it is on.
BEGIN;
DECLARE k CURSOR FOR SELECT id FROM c WHERE i4 = 7;
FETCH 3 FROM k;
MOVE 50 IN k;
FETCH 1 FROM k;
DECLARE s SCROLL CURSOR FOR SELECT id FROM c WHERE id BETWEEN 99 AND 104;
FETCH ALL FROM s;
FETCH BACKWARD 3 FROM s;
EXPLAIN (COSTS OFF) DECLARE s SCROLL CURSOR FOR SELECT id FROM c WHERE i4 = 7;
EXPLAIN (COSTS OFF) DECLARE s CURSOR FOR SELECT id FROM c WHERE i4 = 7;
CLOSE s;
DECLARE e CURSOR FOR SELECT id FROM c;
FETCH 1 FROM e;
UPDATE c SET t = 'changed' WHERE CURRENT OF e;
SELECT id, t FROM c WHERE t = 'changed';
ROLLBACK;
SELECT id FROM c LIMIT 3;

-- A load that is still in memory, and rows of the same transaction.
BEGIN;
INSERT INTO c (id, i4, t) SELECT 70000 + i, i, 'mine' FROM generate_series(1, 500) i;
SELECT count(*), sum(i4) FROM c WHERE t = 'mine' AND i4 <= 250;
SAVEPOINT s;
INSERT INTO c (id, i4, t) SELECT 71000 + i, i, 'mine' FROM generate_series(1, 500) i;
SELECT count(*), sum(i4) FROM c WHERE t = 'mine';
ROLLBACK TO s;
SELECT count(*), sum(i4) FROM c WHERE t = 'mine';
ROLLBACK;

-- Columns that came or went after the groups were written.
CREATE TABLE changing (x int, gone text, y int) USING howdah;
INSERT INTO changing SELECT i, 'gone', i % 10 FROM generate_series(1, 1000) i;
ALTER TABLE changing ADD COLUMN added int DEFAULT 42, ADD COLUMN missing text;
ALTER TABLE changing DROP COLUMN gone;
INSERT INTO changing SELECT i, i % 10, i, 'here' FROM generate_series(1, 1000) i;
EXPLAIN (COSTS OFF) SELECT count(*) FROM changing WHERE added = 42;
SELECT count(*), sum(y) FROM changing WHERE added = 42;
SELECT count(*) FROM changing WHERE missing IS NULL AND y = 3;
SELECT count(*) FROM changing WHERE added <> 42 AND missing = 'here';
SELECT * FROM changing WHERE x = 7;

-- Partitions mixed with heap.
CREATE TABLE parent (x int, y text) PARTITION BY RANGE (x);
CREATE TABLE part_c PARTITION OF parent FOR VALUES FROM (0) TO (500) USING howdah;
CREATE TABLE part_h PARTITION OF parent FOR VALUES FROM (500) TO (2000);
INSERT INTO parent SELECT i, 'y' || i % 5 FROM generate_series(0, 1999) i;
EXPLAIN (COSTS OFF) SELECT count(*) FROM parent WHERE y = 'y3';
SELECT count(*), sum(x) FROM parent WHERE y = 'y3';

-- Row security and security barriers: what is not leakproof stays behind the policy.
CREATE FUNCTION shout(text) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE 'saw %', $1; RETURN true; END $$;
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM c WHERE id % 10000 = 1;
SET client_min_messages = notice;
EXPLAIN (COSTS OFF) SELECT id FROM barrier WHERE i4 = 7 AND n = 0.1 AND shout(t);
SELECT id FROM barrier WHERE i4 = 7 AND shout(t);
SET client_min_messages = warning;
CREATE ROLE regress_columnar_scan_reader;
GRANT USAGE ON SCHEMA columnar_scan TO regress_columnar_scan_reader;
GRANT SELECT ON c TO regress_columnar_scan_reader;
ALTER TABLE c ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON c USING (i2 < 3);
SET ROLE regress_columnar_scan_reader;
EXPLAIN (COSTS OFF) SELECT count(*) FROM c WHERE i4 > 500 AND n > 3;
SELECT count(*), max(i2) FROM c;
RESET ROLE;
ALTER TABLE c DISABLE ROW LEVEL SECURITY;
SELECT count(*) FROM h WHERE i2 < 3;

-- EvalPlanQual's plan tree reads it in subplans; rows of other tables are locked.
BEGIN;
SELECT count(*) FROM (SELECT h.id FROM h WHERE h.id < 3000 AND EXISTS (SELECT 1 FROM c WHERE c.id = h.id AND c.i4 = 7 OFFSET 0) FOR UPDATE OF h) x;
ROLLBACK;

-- Parallel: many participants, few rows, rescans.
SET max_parallel_workers_per_gather = 3;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
EXPLAIN (COSTS OFF) SELECT count(*), sum(i8) FROM c WHERE i4 < 500;
SELECT count(*), sum(i8) FROM c WHERE i4 < 500;
SELECT count(*), sum(i8) FROM h WHERE i4 < 500;
SELECT count(*) FROM (SELECT id, t, n, u FROM c EXCEPT ALL SELECT id, t, n, u FROM h) x;
SELECT t.x, (SELECT count(*) FROM c WHERE c.i4 > t.x) FROM (VALUES (10), (500), (990)) t(x);
SET parallel_leader_participation = off;
SELECT count(*), sum(i8) FROM c WHERE i4 < 500;
RESET parallel_leader_participation;
BEGIN;
INSERT INTO c (id, i4) SELECT 80000 + i, -i FROM generate_series(1, 500) i;
SELECT count(*), sum(i4) FROM c WHERE i4 < 0 AND i4 > -1000;
ROLLBACK;
SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;
SELECT count(*) FROM c a JOIN (SELECT x FROM generate_series(1, 3) x) v ON a.i2 = v.x;
RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material; RESET enable_memoize;
RESET max_parallel_workers_per_gather;
RESET min_parallel_table_scan_size;
SET debug_parallel_query = regress;
SELECT count(*), sum(i8) FROM c WHERE i4 < 500;
RESET debug_parallel_query;

DROP OWNED BY regress_columnar_scan_reader;
DROP ROLE regress_columnar_scan_reader;
DROP SCHEMA columnar_scan CASCADE;
