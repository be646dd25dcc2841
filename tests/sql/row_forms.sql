-- Rows that are read one by one become heap tuples of our own making: they must be to the byte
-- what heap makes of the same values, in each order of columns, with and without NULLs, short and
-- long, aligned and not, compressed and toasted before they became cold.
CREATE SCHEMA row_forms;
SET search_path = row_forms, public;
SET client_min_messages = warning;
SET howdah.load_threshold = 0;
SET howdah.columnar_scan = off;
SET max_parallel_workers_per_gather = 0;

-- One value of each form, by the number of the row; b: 1 byte, s: 2, i: 4, d: 8 bytes aligned, v: of variable length.
CREATE TABLE forms (name text PRIMARY KEY, type text, value text);
INSERT INTO forms VALUES
    ('b', 'bool', 'i % 3 = 0'),
    ('c', '"char"', '(i % 90 + 33)::"char"'),
    ('s', 'int2', '(i % 30000)::int2'),
    ('i', 'int4', 'i'),
    ('d', 'float8', 'sqrt(i)'),
    ('l', 'int8', 'i::int8 << 33'),
    ('u', 'uuid', 'md5(i::text)::uuid'),
    ('n', 'name', '(''name '' || i)::name'),
    ('m', 'macaddr', '(''08:00:2b:01:02:'' || to_hex(16 + i % 200))::macaddr'),
    ('t', 'text', 'left(repeat(md5(i::text), 10), (i * 7) % 320)'),
    ('e', 'text', ''''''),
    ('h', 'text', 'repeat(''x'', 120 + i % 12)'),
    ('p', 'numeric', 'i / 7.0'),
    ('q', 'numeric', '(i || ''e'' || i % 90)::numeric'),
    ('j', 'jsonb', 'jsonb_build_object(''i'', i, ''t'', repeat(''y'', i % 200))'),
    ('a', 'int8[]', 'ARRAY[i, i + 1]::int8[]'),
    ('x', 'bytea', 'decode(repeat(''00ff'', i % 70), ''hex'')'),
    ('z', 'text', 'CASE WHEN i % 40 = 0 THEN repeat(md5(i::text), 200) WHEN i % 40 = 1 THEN repeat(''long '', 3000) ELSE ''short'' END');

-- A heap table and a howdah table with these columns; what their rows are by index, compared by text, by the bytes that each
-- value takes, and by the bytes that the row takes as it is and copied into another heap table.
CREATE FUNCTION compare(columns text, nulls int) RETURNS TABLE (rows bigint, cold bigint, different bigint) LANGUAGE plpgsql AS $$
DECLARE side text; list text; filling text; sizes text; n int := length(columns);
BEGIN
    DROP TABLE IF EXISTS r_heap, r_howdah, copy_heap, copy_howdah;
    SELECT string_agg(format('c%s %s', o, type), ', ' ORDER BY o),
           string_agg(CASE WHEN nulls = 0 THEN value ELSE format('CASE WHEN (i * 31 + %s) %% %s <> 0 THEN %s END', o * 7, nulls, value) END, ', ' ORDER BY o),
           string_agg(format('pg_column_size(c%s)', o), ', ' ORDER BY o)
        INTO list, filling, sizes FROM forms, generate_series(1, n) o WHERE name = substr(columns, o, 1);
    FOREACH side IN ARRAY ARRAY['heap', 'howdah'] LOOP
        EXECUTE format('CREATE TABLE r_%s (k int PRIMARY KEY, %s) USING %1$s', side, list);
        EXECUTE format('INSERT INTO r_%s SELECT i, %s FROM generate_series(1, 400) i', side, filling);
        EXECUTE format('CREATE TABLE copy_%s (LIKE r_heap) USING heap', side);
    END LOOP;
    SET LOCAL enable_seqscan = off;
    SET LOCAL enable_bitmapscan = off;
    EXECUTE 'INSERT INTO copy_heap SELECT * FROM r_heap WHERE k > 0';
    EXECUTE 'INSERT INTO copy_howdah SELECT * FROM r_howdah WHERE k > 0';
    -- Values that were compressed or toasted are plain when they are cold, hence only short ones have the same size.
    EXECUTE format($q$WITH a AS (SELECT k, r::text AS t, CASE WHEN octet_length(r::text) < 1500 THEN ROW(%1$s)::text END AS sizes FROM r_heap r WHERE k > 0),
        b AS (SELECT k, r::text AS t, CASE WHEN octet_length(r::text) < 1500 THEN ROW(%1$s)::text END AS sizes FROM r_howdah r WHERE k > 0),
        c AS (SELECT k, r::text AS t, ROW(%1$s)::text || pg_column_size(r) AS sizes FROM copy_heap r),
        d AS (SELECT k, r::text AS t, ROW(%1$s)::text || pg_column_size(r) AS sizes FROM copy_howdah r)
        SELECT count(*), (SELECT cold_rows FROM howdah.tables WHERE relation = 'r_howdah'::regclass),
               count(*) FILTER (WHERE a.t IS DISTINCT FROM b.t OR a.sizes IS DISTINCT FROM b.sizes
                                   OR c.t IS DISTINCT FROM d.t OR c.sizes IS DISTINCT FROM d.sizes OR a.t IS DISTINCT FROM d.t)
        FROM a FULL JOIN b USING (k) FULL JOIN c USING (k) FULL JOIN d USING (k)$q$, sizes) INTO rows, cold, different;
    RETURN NEXT;
END $$;

-- Each form behind each other one, and between two of them.
SELECT sum(rows) AS rows, sum(cold) AS cold, sum(different) AS different, count(*) AS tables
FROM forms f, forms g, LATERAL compare(f.name || g.name || f.name, 0);
-- All of them, forwards and backwards, without NULLs, with some and with many.
SELECT columns, nulls, compared.* FROM
    (VALUES (0), (2), (3), (11)) n(nulls),
    (VALUES ('bcsidlunmtehpqjaxz'), ('zxajqpehtmnuldiscb'), ('tbtctstitdtltutntm'), ('bhbhbhbhbeebebebz'), ('iiiiiiii'), ('dbdbdbdb')) c(columns),
    LATERAL compare(columns, nulls) compared
ORDER BY columns, nulls;

-- Values that are stored plain keep their long headers.
CREATE TABLE plain_heap (k int PRIMARY KEY, b bool, t text STORAGE PLAIN, u text) USING heap;
CREATE TABLE plain_howdah (k int PRIMARY KEY, b bool, t text STORAGE PLAIN, u text) USING howdah;
INSERT INTO plain_heap SELECT i, i % 2 = 0, repeat('p', i % 150), repeat('u', i % 130) FROM generate_series(1, 400) i;
INSERT INTO plain_howdah SELECT * FROM plain_heap;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*), count(*) FILTER (WHERE h.t <> c.t OR h.u <> c.u OR h.b <> c.b) AS different,
    count(*) FILTER (WHERE pg_column_size(h.u) <> pg_column_size(c.u)) AS of_other_size
FROM plain_heap h JOIN plain_howdah c USING (k) WHERE k > 0;
SELECT count(*), count(*) FILTER (WHERE pg_column_size(t) <> octet_length(t) + 4) AS shortened FROM plain_howdah WHERE k > 0;
-- The form of rows is kept from one transaction to the next; each of these statements is one. It is never taken for that of
-- another table, nor for that of the same table before it was altered.
CREATE TABLE kept (k int PRIMARY KEY, a text, b int NOT NULL) USING howdah;
CREATE TABLE other (k int PRIMARY KEY, a int, b text) USING howdah;
INSERT INTO kept SELECT i, 'kept ' || i, 2 * i FROM generate_series(1, 400) i;
INSERT INTO other SELECT i, 3 * i, 'other ' || i FROM generate_series(1, 400) i;
SELECT * FROM kept WHERE k = 7;
SELECT * FROM other WHERE k = 7;
SELECT * FROM kept WHERE k = 8;
SELECT b FROM kept WHERE k = 8;
SELECT a FROM kept WHERE k = 8;
ALTER TABLE kept DROP COLUMN a;
SELECT * FROM kept WHERE k = 8;
ALTER TABLE kept ADD COLUMN c text DEFAULT 'added';
SELECT * FROM kept WHERE k = 8;
ALTER TABLE kept ALTER COLUMN b DROP NOT NULL;
SELECT k, c FROM kept WHERE k = 8;
ALTER TABLE kept ALTER COLUMN b TYPE bigint USING b + 1;
SELECT * FROM kept WHERE k = 8;
SELECT k / (k - 8) FROM kept WHERE k = 8;
SELECT * FROM kept WHERE k = 9;
CREATE DOMAIN word AS text;
CREATE TABLE words (k int PRIMARY KEY, w word) USING howdah;
INSERT INTO words SELECT i, 'word ' || i FROM generate_series(1, 400) i;
SELECT * FROM words WHERE k = 9;
DROP TABLE words;
DROP DOMAIN word;
CREATE DOMAIN word AS bytea;
CREATE TABLE words (k int PRIMARY KEY, w word) USING howdah;
INSERT INTO words SELECT i, decode(lpad(to_hex(i), 4, '0'), 'hex') FROM generate_series(1, 400) i;
SELECT * FROM words WHERE k = 9;
-- Long values, which are not kept, and short ones behind them.
CREATE TABLE long (k int PRIMARY KEY, t text) USING howdah;
INSERT INTO long SELECT i, repeat('long ', CASE i WHEN 5 THEN 100000 ELSE 1 END) FROM generate_series(1, 400) i;
SELECT length(t), md5(t) = md5(repeat('long ', 100000)) AS same FROM long WHERE k = 5;
SELECT * FROM long WHERE k = 6;
SELECT sum(cold_rows) AS cold FROM howdah.tables WHERE relation IN ('kept'::regclass, 'other', 'words', 'long');
DROP SCHEMA row_forms CASCADE;
