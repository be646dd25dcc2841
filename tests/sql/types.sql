-- Every kind of column, loaded cold and read back as heap gives it: by text, by binary image
-- where the type has one, and by index.
CREATE SCHEMA types;
SET search_path = types, public;
SET howdah.load_threshold = 0;
\getenv directory PG_ABS_SRCDIR
\set compare :directory '/sql/compare.psql'
\i :compare
-- Makes a heap and a howdah table of one column from the same query, compares them also by the
-- bytes that the type sends, and says what is stored.
CREATE FUNCTION check_type(type text, query text)
    RETURNS TABLE (rows bigint, cold bigint, different bigint, binary_different bigint, nulls bigint) LANGUAGE plpgsql AS $$
DECLARE send regproc;
BEGIN
    DROP TABLE IF EXISTS one_heap, one_howdah;
    EXECUTE format('CREATE TABLE one_heap (v %s) USING heap', type);
    EXECUTE format('CREATE TABLE one_howdah (v %s) USING howdah', type);
    EXECUTE format('INSERT INTO one_heap %s', query);
    EXECUTE 'INSERT INTO one_howdah SELECT v FROM one_heap';
    SELECT typsend INTO send FROM pg_type JOIN pg_attribute ON atttypid = pg_type.oid
        WHERE attrelid = 'one_heap'::regclass AND attnum = 1;
    EXECUTE format('SELECT count(*) FROM (SELECT %1$s(v) FROM one_heap EXCEPT ALL SELECT %1$s(v) FROM one_howdah) d', send) INTO binary_different;
    SELECT count(*), cold('one_howdah'), differences('one_heap', 'one_howdah'), count(*) FILTER (WHERE v IS NULL)
        INTO rows, cold, different, nulls FROM one_howdah;
    RETURN NEXT;
END $$;

SET client_min_messages = warning;
SELECT * FROM check_type('bool', 'SELECT CASE i % 3 WHEN 0 THEN true WHEN 1 THEN false END FROM generate_series(1, 1000) i');
SELECT * FROM check_type('"char"', 'SELECT NULLIF(i % 256 - 128, 7)::int2::int4::"char" FROM generate_series(1, 1000) i');
SELECT * FROM check_type('int2', 'SELECT unnest(ARRAY[0, -1, 1, 32767, -32768, NULL]::int2[]) FROM generate_series(1, 100)');
SELECT * FROM check_type('int4', 'SELECT unnest(ARRAY[0, -1, 2147483647, -2147483648, NULL]) FROM generate_series(1, 100)');
SELECT * FROM check_type('int8', 'SELECT unnest(ARRAY[0, -1, 9223372036854775807, -9223372036854775808, NULL]::int8[]) FROM generate_series(1, 100)');
SELECT * FROM check_type('float4', $$SELECT unnest('{0,-0,1.5,-1e-45,3.4e38,-3.4e38,NaN,Infinity,-Infinity,NULL}'::float4[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('float8', $$SELECT unnest('{0,-0,0.1,1e-300,1.7e308,5e-324,NaN,Infinity,-Infinity,NULL}'::float8[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('numeric', $$SELECT unnest('{0,0.0,0.000,1.10,1.1,-1.10,1e50,-1e-50,123456789012345678901234567890.123456789,0.00001,NaN,Infinity,-Infinity,NULL}'::numeric[]) FROM generate_series(1, 100)$$);
SELECT v FROM one_howdah GROUP BY v::text, v ORDER BY v, v::text;
SELECT * FROM check_type('numeric(12,2)', $$SELECT (i - 500) / 7.0 FROM generate_series(1, 1000) i$$);
SELECT * FROM check_type('numeric', $$SELECT (i * 10::numeric ^ (i % 60 - 30))::numeric FROM generate_series(1, 1000) i$$);
SELECT * FROM check_type('numeric', $$SELECT ('1e' || i * 10)::numeric + 1 FROM generate_series(1, 1000) i$$);
SELECT * FROM check_type('money', 'SELECT (i * 1.37)::numeric::money FROM generate_series(-500, 500) i');
SELECT * FROM check_type('date', $$SELECT unnest('{infinity,-infinity,4713-01-01 BC,5874897-12-31,2000-01-01,2026-02-28,NULL}'::date[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('time', $$SELECT unnest('{00:00,23:59:59.999999,24:00:00,12:34:56.789,NULL}'::time[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('timetz', $$SELECT unnest('{00:00+00,23:59:59.999999-15:59,12:00+05:30,NULL}'::timetz[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('timestamp', $$SELECT unnest('{infinity,-infinity,4713-01-01 BC,294276-12-31 23:59:59.999999,2026-01-01 00:00:00.000001,NULL}'::timestamp[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('timestamptz', $$SELECT unnest('{infinity,-infinity,2026-03-29 01:30+01,1883-11-18 12:00,NULL}'::timestamptz[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('interval', $$SELECT unnest('{0,1 mon,30 days,720:00:00,-1 year 3 days -4:05:06.7,infinity,-infinity,NULL}'::interval[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('text', $$SELECT unnest(ARRAY['', ' ', 'a', E'tab\tnew\nline', 'ünïcödé', '日本語', '🐘', repeat('long ', 2000), NULL]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('text', $$SELECT md5(i::text) || repeat(chr(65 + i % 26), i % 50) FROM generate_series(1, 5000) i$$);
SELECT * FROM check_type('varchar(10)', $$SELECT left(md5(i::text), i % 11) FROM generate_series(1, 1000) i$$);
SELECT * FROM check_type('char(8)', $$SELECT left(md5(i::text), i % 9) FROM generate_series(1, 1000) i$$);
SELECT * FROM check_type('name', $$SELECT left(md5(i::text), i % 20)::name FROM generate_series(1, 1000) i$$);
SELECT * FROM check_type('bytea', $$SELECT unnest(ARRAY['', '\x00', '\xff00ff', decode(repeat('00ff', 5000), 'hex'), NULL]::bytea[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('uuid', $$SELECT NULLIF(md5((i % 300)::text), md5('5'))::uuid FROM generate_series(1, 1000) i$$);
SELECT * FROM check_type('json', $$SELECT unnest(ARRAY['{"a" : 1, "a" :2}', 'null', '[1,  2]', '"x"', NULL]::json[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('jsonb', $$SELECT jsonb_build_object('id', i, 'tags', jsonb_build_array(i % 3, 'x', null), 'deep', jsonb_build_object('k', repeat('v', i % 100))) FROM generate_series(1, 1000) i$$);
SELECT * FROM check_type('jsonpath', $$SELECT ('$.a[' || i || '] ? (@ > 2)')::jsonpath FROM generate_series(1, 100) i$$);
SELECT * FROM check_type('int4[]', $$SELECT unnest(ARRAY['{}', '{1,NULL,3}', '[5:7]={1,2,3}', '{{1,2},{3,4}}', NULL]::text[])::int4[] FROM generate_series(1, 100)$$);
SELECT * FROM check_type('text[]', $$SELECT ARRAY['a', NULL, '', repeat('x', i), '"quoted"'] FROM generate_series(1, 1000) i$$);
SELECT * FROM check_type('int4range', $$SELECT unnest('{empty,"[1,5)","(,)","[,3]",NULL}'::int4range[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('tstzrange', $$SELECT tstzrange(now(), now() + i * interval '1 h', '(]') FROM generate_series(1, 100) i$$);
SELECT * FROM check_type('int8multirange', $$SELECT ('{[' || i || ',' || i + 5 || '),[1000,1001)}')::int8multirange FROM generate_series(1, 100) i$$);
SELECT * FROM check_type('inet', $$SELECT unnest('{1.2.3.4,10.0.0.0/8,::1,2001:db8::/32,NULL}'::inet[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('cidr', $$SELECT unnest('{10.0.0.0/8,2001:db8::/32}'::cidr[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('macaddr', $$SELECT '08:00:2b:01:02:03'::macaddr FROM generate_series(1, 100)$$);
SELECT * FROM check_type('macaddr8', $$SELECT '08:00:2b:01:02:03:04:05'::macaddr8 FROM generate_series(1, 100)$$);
SELECT * FROM check_type('point', 'SELECT point(i, -i / 3.0) FROM generate_series(1, 100) i');
SELECT * FROM check_type('polygon', $$SELECT polygon(i % 10 + 3, circle(point(i, i), 5)) FROM generate_series(1, 100) i$$);
SELECT * FROM check_type('path', $$SELECT '[(1,2),(3,4)]'::path FROM generate_series(1, 100)$$);
SELECT * FROM check_type('bit(5)', $$SELECT (i % 32)::bit(5) FROM generate_series(1, 100) i$$);
SELECT * FROM check_type('varbit', $$SELECT repeat('10', i)::varbit FROM generate_series(0, 100) i$$);
SELECT * FROM check_type('tsvector', $$SELECT to_tsvector('simple', 'the row ' || i || ' and the row') FROM generate_series(1, 100) i$$);
SELECT * FROM check_type('tsquery', $$SELECT to_tsquery('simple', 'a' || i || ' & !b') FROM generate_series(1, 100) i$$);
SELECT * FROM check_type('oid', 'SELECT unnest(ARRAY[0, 4294967295, 1259]::oid[]) FROM generate_series(1, 100)');
SELECT * FROM check_type('regclass', $$SELECT unnest('{pg_class,pg_type,0}'::regclass[]) FROM generate_series(1, 100)$$);
SELECT * FROM check_type('tid', $$SELECT ('(' || i || ',5)')::tid FROM generate_series(1, 100) i$$);
SELECT * FROM check_type('xid8', $$SELECT i::text::xid8 FROM generate_series(1, 100) i$$);
SELECT * FROM check_type('pg_lsn', $$SELECT '16/B374D848'::pg_lsn FROM generate_series(1, 100)$$);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
SELECT * FROM check_type('mood', $$SELECT (enum_range(NULL::mood))[i % 4] FROM generate_series(1, 1000) i$$);
SELECT v, count(*) FROM one_howdah GROUP BY v ORDER BY v;
CREATE TYPE pair AS (a int, b text);
SELECT * FROM check_type('pair', $$SELECT CASE WHEN i % 5 > 0 THEN ROW(i, NULLIF(repeat('b', i % 40), ''))::pair END FROM generate_series(1, 1000) i$$);
SELECT * FROM check_type('pair[]', $$SELECT ARRAY[ROW(i, 'x')::pair, NULL, ROW(NULL, NULL)::pair] FROM generate_series(1, 100) i$$);
CREATE DOMAIN positive AS int CHECK (value > 0);
SELECT * FROM check_type('positive', 'SELECT generate_series(1, 1000)');
CREATE DOMAIN pairs AS pair[];
SELECT * FROM check_type('pairs', $$SELECT ARRAY[ROW(i, 'x')::pair] FROM generate_series(1, 100) i$$);
CREATE DOMAIN price AS numeric(10, 3);
SELECT * FROM check_type('price', 'SELECT i / 3.0 FROM generate_series(1, 1000) i');

-- All null, one row, one value, no column at all.
SELECT * FROM check_type('text', 'SELECT NULL FROM generate_series(1, 10000)');
SELECT * FROM check_type('numeric', 'SELECT 1.10');
SELECT * FROM check_type('int8', 'SELECT 42 FROM generate_series(1, 140000)');
CREATE TABLE nothing () USING howdah;
INSERT INTO nothing SELECT FROM generate_series(1, 1000);
SELECT count(*), cold('nothing') FROM nothing;

-- A wide table, with values that were compressed or out of line where they came from.
CREATE TABLE wide_heap (id int, a text, b text COLLATE "C", c bytea, d numeric, e jsonb) USING heap;
ALTER TABLE wide_heap ALTER a SET STORAGE EXTERNAL, ALTER c SET STORAGE EXTERNAL;
INSERT INTO wide_heap SELECT i, repeat(md5(i::text), i % 300), repeat('compressible', i % 1000), decode(repeat(md5(i::text), i % 200), 'hex'), i / 3.0, jsonb_build_object('v', repeat('j', i % 5000))
    FROM generate_series(1, 1000) i;
CREATE TABLE wide_howdah (LIKE wide_heap) USING howdah;
INSERT INTO wide_howdah TABLE wide_heap;
SELECT differences('wide_heap', 'wide_howdah'), cold('wide_howdah');
SELECT md5(string_agg(b, ',' ORDER BY id)) = (SELECT md5(string_agg(b, ',' ORDER BY id)) FROM wide_heap) AS same FROM wide_howdah;

-- Order and equality as on heap: collations, negative zero, NaN.
CREATE TABLE words (w text COLLATE "C", f float8) USING howdah;
INSERT INTO words VALUES ('b', 'NaN'), ('B', '-0'), ('a', 0), ('Z', '-Infinity'), ('é', NULL);
SELECT * FROM words ORDER BY w;
SELECT f, count(*) FROM words GROUP BY f ORDER BY f;

DROP SCHEMA types CASCADE;
