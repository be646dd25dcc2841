-- Values of several columns side by side: the option, what it stores, and every statement on such rows.
CREATE SCHEMA grouped;
SET search_path = grouped, public;
SET howdah.load_threshold = 0;
CREATE TABLE t (id int PRIMARY KEY, name text, kind text, note varchar(200), doc jsonb, code char(12), key uuid, bin bytea,
                twice text GENERATED ALWAYS AS (name || name) VIRTUAL) USING howdah;

-- What is refused.
SELECT howdah.set_options('t', grouped_columns => '{name,nothing}');
SELECT howdah.set_options('t', grouped_columns => '{name,note,name}');
SELECT howdah.set_options('t', grouped_columns => '{name,NULL}');
SELECT howdah.set_options('t', grouped_columns => '{name,ctid}');
SELECT howdah.set_options('t', grouped_columns => '{name,twice}');
SELECT howdah.set_options('t', grouped_columns => array_fill('name'::text, ARRAY[129]));
SECURITY LABEL FOR howdah ON COLUMN t.name IS 'grouped=yes';
SECURITY LABEL FOR howdah ON COLUMN t.name IS 'grouped=on, grouped=on';

-- Set and reset, beside a sort key.
CREATE VIEW labels AS SELECT objname, label FROM pg_seclabels
    WHERE provider = 'howdah' AND objnamespace = 'grouped'::regnamespace ORDER BY objsubid;
SELECT howdah.set_options('t', sort_key => '{name,id}', grouped_columns => '{bin,name,key}');
SELECT sort_key, grouped_columns FROM howdah.options;
TABLE labels;
SELECT howdah.reset_options('t', 'sort_key');
TABLE labels;
SELECT howdah.set_options('t', grouped_columns => '{}');
SELECT count(*) FROM howdah.options;
SECURITY LABEL FOR howdah ON COLUMN t.name IS 'grouped=on';
SELECT howdah.set_options('t', sort_key => '{name}');
TABLE labels;
SELECT howdah.reset_options('t');
TABLE labels;
SELECT howdah.set_options('t', grouped_columns => '{name,kind,note,doc,code,key,bin}');

-- The same rows as heap's.
CREATE TABLE h (LIKE t INCLUDING GENERATED, PRIMARY KEY (id)) USING heap;
CREATE FUNCTION made(first int, last int)
RETURNS TABLE (id int, name text, kind text, note text, doc jsonb, code text, key uuid, bin bytea)
LANGUAGE sql IMMUTABLE AS $$
    SELECT i, md5(i::text), 'kind ' || i % 3, CASE WHEN i % 7 > 0 THEN repeat('nöte ' || i, 1 + i % 9) END,
        jsonb_build_object('id', i, 'word', md5('w' || i)), substr(md5('c' || i), 1, 12), md5('k' || i)::uuid,
        decode(substr(md5('b' || i), 1, i % 31 / 2 * 2), 'hex')
    FROM generate_series(first, last) i
$$;
INSERT INTO t SELECT * FROM made(1, 5000);
INSERT INTO h SELECT * FROM made(1, 5000);
SELECT a.attname, c.encoding LIKE 'grouped(%' AS is_grouped, c.bytes < c.raw_bytes AS is_smaller
    FROM howdah.column_chunks c JOIN pg_attribute a ON a.attrelid = c.relation AND a.attnum = c.attnum
    WHERE relation = 't'::regclass ORDER BY c.attnum;
SELECT sum(c.bytes) BETWEEN max(g.body_bytes) - 100 AND max(g.body_bytes) AS all_bytes
    FROM howdah.column_chunks c JOIN howdah.row_groups g USING (relation, row_group) WHERE relation = 't'::regclass;
CREATE FUNCTION differences(query text, one text = 't', other text = 'h') RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    found bigint;
BEGIN
    EXECUTE format('SELECT count(*) FROM ((%1$s EXCEPT ALL %2$s) UNION ALL (%2$s EXCEPT ALL %1$s)) d',
        replace(query, '@', one), replace(query, '@', other)) INTO found;
    RETURN found;
END $$;
CREATE TABLE queries (query text);
INSERT INTO queries VALUES
    ('SELECT * FROM @'),
    ('SELECT twice, doc->>''word'' FROM @ WHERE id = 77'),
    ('SELECT * FROM @ WHERE id BETWEEN 100 AND 140'),
    ('SELECT name, bin FROM @ WHERE id IN (3, 999, 2500, 4999, 5001)'),
    ('SELECT note FROM @ WHERE id % 100 = 5'),
    ('SELECT id FROM @ WHERE note IS NULL'),
    ('SELECT id FROM @ WHERE note LIKE ''%5n%'' AND code > ''8'''),
    ('SELECT id FROM @ WHERE key = md5(''k44'')::uuid OR name = md5(''55'')'),
    ('SELECT kind, count(note), max(name), min(code), max(length(bin)), sum(length(note)) FROM @ GROUP BY kind'),
    ('SELECT count(*) FROM @ WHERE (doc->>''id'')::int = 12 OR octet_length(bin) = 4'),
    ('SELECT count(DISTINCT note), count(DISTINCT bin) FROM @'),
    ('SELECT a.name, b.note FROM @ a JOIN @ b ON b.id = a.id + 1 WHERE a.id < 300');
SELECT query, differences(query) FROM queries WHERE differences(query) <> 0;
SET howdah.debug_force_vectorized = on;
SELECT query, differences(query) FROM queries WHERE differences(query) <> 0;
RESET howdah.debug_force_vectorized;
SET enable_seqscan = off;
SET howdah.columnar_scan = off;
SELECT query, differences(query) FROM queries WHERE differences(query) <> 0;
RESET enable_seqscan;
RESET howdah.columnar_scan;

-- Changed, and compacted again.
UPDATE t SET name = 'changed ' || id, note = NULL WHERE id % 11 = 0;
UPDATE h SET name = 'changed ' || id, note = NULL WHERE id % 11 = 0;
DELETE FROM t WHERE id % 13 = 0;
DELETE FROM h WHERE id % 13 = 0;
INSERT INTO t SELECT * FROM made(6000, 6100);
INSERT INTO h SELECT * FROM made(6000, 6100);
SELECT query, differences(query) FROM queries WHERE differences(query) <> 0;
CALL howdah.compact('t');
SELECT query, differences(query) FROM queries WHERE differences(query) <> 0;

-- Columns that come, go, and become something else.
ALTER TABLE t ADD COLUMN later text DEFAULT 'later', DROP COLUMN code CASCADE;
ALTER TABLE h ADD COLUMN later text DEFAULT 'later', DROP COLUMN code CASCADE;
DELETE FROM queries WHERE query LIKE '%code%';
INSERT INTO queries VALUES ('SELECT later, name FROM @ WHERE id < 50');
SELECT query, differences(query) FROM queries WHERE differences(query) <> 0;
SELECT grouped_columns FROM howdah.options;
ALTER TABLE t DROP COLUMN twice, ALTER COLUMN name TYPE varchar(80), ALTER COLUMN bin TYPE int USING length(bin);
ALTER TABLE h DROP COLUMN twice, ALTER COLUMN name TYPE varchar(80), ALTER COLUMN bin TYPE int USING length(bin);
SELECT count(*) FROM (SELECT * FROM t EXCEPT ALL SELECT * FROM h) d;
SELECT a.attname, c.encoding LIKE 'grouped(%' AS is_grouped
    FROM howdah.column_chunks c JOIN pg_attribute a ON a.attrelid = c.relation AND a.attnum = c.attnum
    WHERE relation = 't'::regclass AND attname IN ('name', 'note', 'bin', 'later') ORDER BY row_group, c.attnum;

-- A scan reads what columns share once, also where it decodes rows that a condition leaves.
SELECT count(*), count(DISTINCT name), max(length(note)) FROM t WHERE doc->>'word' < '8';
SELECT count(*), count(DISTINCT name), max(length(note)) FROM h WHERE doc->>'word' < '8';
EXPLAIN (COSTS OFF) SELECT max(name), max(note), max(key::text) FROM t;

-- In a group, a row of eight columns costs one page, mostly.
CREATE TABLE wide (id int PRIMARY KEY, a text, b text, c text, d text, e text, f text, g text, h text) USING howdah;
CREATE TABLE apart (LIKE wide INCLUDING ALL) USING howdah;
SELECT howdah.set_options('wide', grouped_columns => '{a,b,c,d,e,f,g,h}');
INSERT INTO wide SELECT i, md5('a' || i), md5('b' || i), md5('c' || i), md5('d' || i), md5('e' || i), md5('f' || i),
    md5('g' || i), md5('h' || i) FROM generate_series(1, 20000) i;
INSERT INTO apart SELECT * FROM wide;
VACUUM ANALYZE wide, apart;
CREATE FUNCTION pages(command text) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    plan json;
BEGIN
    -- What a session knows of a group is not counted.
    EXECUTE command;
    EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF, FORMAT JSON) ' || command INTO plan;
    RETURN (plan #>> '{0,Plan,Shared Hit Blocks}')::int + (plan #>> '{0,Plan,Shared Read Blocks}')::int;
END $$;
SELECT pages('SELECT apart FROM apart WHERE id = 15000') - pages('SELECT wide FROM wide WHERE id = 15000') >= 6 AS is_cheaper;

-- Numbers lie among the strings.
CREATE TABLE n (id int PRIMARY KEY, b bool, s smallint, i int, l bigint, r real, d double precision, m numeric(12,2),
                free numeric, same int, day date, at timestamptz, took interval, word text, rising bigint) USING howdah;
CREATE TABLE hn (LIKE n INCLUDING ALL) USING heap;
SELECT howdah.set_options('n', grouped_columns => '{id,b,s,i,l,r,d,m,free,same,day,at,took,word,rising}');
INSERT INTO hn SELECT i, i % 3 = 0, CASE WHEN i % 5 > 0 THEN i % 1000 - 500 END, i * 7919 % 100003 - 50000,
    CASE i WHEN 1 THEN -9223372036854775808 WHEN 2 THEN 9223372036854775807 ELSE i * 104729::bigint END,
    CASE i WHEN 3 THEN 'NaN' WHEN 4 THEN '-0' WHEN 5 THEN '-inf' ELSE i / 7.0 END,
    CASE i WHEN 3 THEN '-0' WHEN 4 THEN 'NaN' ELSE sin(i) END, CASE WHEN i % 4 > 0 THEN i * 37 % 10007 / 100.0 - 20 END,
    CASE WHEN i % 3 > 0 THEN 1.5 ELSE 1.25 END * i, 7, '2026-01-01'::date + i % 700, '2026-01-01 00:00+00'::timestamptz + i * interval '7 minutes',
    CASE WHEN i % 6 > 0 THEN i * interval '1 second' END, 'word ' || i % 97 || md5(i::text), i FROM generate_series(1, 20000) i;
INSERT INTO n TABLE hn;
CREATE INDEX ON n (i);
CREATE INDEX ON hn (i);
VACUUM ANALYZE n, hn;
SELECT a.attname, c.encoding LIKE 'grouped(%' AS is_grouped
    FROM howdah.column_chunks c JOIN pg_attribute a ON a.attrelid = c.relation AND a.attnum = c.attnum
    WHERE relation = 'n'::regclass ORDER BY row_group, c.attnum;
SELECT count(*) FROM (TABLE n EXCEPT ALL TABLE hn) d;
SELECT (SELECT md5(string_agg(n::text, '|' ORDER BY id)) FROM n) = (SELECT md5(string_agg(hn::text, '|' ORDER BY id)) FROM hn) AS same_text;
TRUNCATE queries;
INSERT INTO queries VALUES
    ('SELECT * FROM @ WHERE id = 12345'), ('SELECT * FROM @ WHERE i BETWEEN -100 AND 100'), ('SELECT * FROM @ WHERE id IN (1, 2, 3, 4, 5, 19999)'),
    ('SELECT id FROM @ WHERE s IS NULL'), ('SELECT s, count(*), sum(l), min(m), max(free), avg(m) FROM @ GROUP BY s'),
    ('SELECT b, count(i), min(i), max(i), sum(i), min(r), max(d) FROM @ GROUP BY b'), ('SELECT id, m FROM @ WHERE m > 70'),
    ('SELECT id FROM @ WHERE r = ''NaN'' OR d = 0 OR l < 0'), ('SELECT day, max(at) FROM @ WHERE day < ''2026-03-01'' GROUP BY day'),
    ('(SELECT id, took FROM @ ORDER BY took DESC NULLS LAST, id LIMIT 20)'), ('SELECT same, rising FROM @ WHERE rising % 1000 = 0');
SELECT query FROM queries WHERE differences(query, 'n', 'hn') <> 0;
SET howdah.debug_force_vectorized = on;
SELECT query FROM queries WHERE differences(query, 'n', 'hn') <> 0;
RESET howdah.debug_force_vectorized;
SET enable_seqscan = off;
SET howdah.columnar_scan = off;
SELECT query FROM queries WHERE differences(query, 'n', 'hn') <> 0;
RESET howdah.columnar_scan;
RESET enable_seqscan;
UPDATE n SET m = m + 1, s = NULL WHERE id % 777 = 0;
UPDATE hn SET m = m + 1, s = NULL WHERE id % 777 = 0;
DELETE FROM n WHERE i BETWEEN 0 AND 500;
DELETE FROM hn WHERE i BETWEEN 0 AND 500;
SELECT count(*) FROM (TABLE n EXCEPT ALL TABLE hn) d;
SELECT pages('SELECT n FROM n WHERE id = 15000') <= 16 AS is_near;

SET client_min_messages = warning;
DROP SCHEMA grouped CASCADE;
