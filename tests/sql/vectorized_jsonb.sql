-- Functions of jsonb values in the vectorized engine: the same rows and errors as over heap.
-- vectorized_jsonb_on_heap.sql is this file by another name and runs it over heap.
CREATE SCHEMA vectorized_jsonb;
SET search_path = vectorized_jsonb, public;
\getenv directory PG_ABS_SRCDIR
\set twin :directory '/sql/twin.psql'
\i :twin
SET howdah.load_threshold = 100;
SET howdah.debug_force_vectorized = on;
SET howdah.threads = 2;
CREATE TABLE t (id int, doc jsonb, one jsonb, list jsonb, num jsonb, path text[], key text, at int, n text);
-- Documents of one shape, of others, with keys beyond one stride of offsets, deep, empty, and NULL.
INSERT INTO t SELECT i, CASE i % 11
        WHEN 0 THEN NULL
        WHEN 1 THEN jsonb_build_object('id', i, 'status', 'no ' || i % 7, 'more', jsonb_build_object('a', jsonb_build_array(i % 3, 'x"\' || chr(9) || chr(i % 31 + 1), NULL, i % 2 = 0)))
        WHEN 2 THEN (SELECT jsonb_object_agg('k' || j, j * i) FROM generate_series(1, 70) j)
        WHEN 3 THEN jsonb_build_array(i % 5, 'a', jsonb_build_object('a', i % 4), '[]'::jsonb, NULL)
        WHEN 4 THEN to_jsonb(i % 9)
        WHEN 5 THEN to_jsonb('status'::text)
        WHEN 6 THEN '{}'
        WHEN 7 THEN (repeat('[', 60) || i || repeat(']', 60))::jsonb
        ELSE jsonb_build_object('id', i, 'status', (ARRAY['new', 'paid', 'ünterwegs 🦀 mit langem Namen'])[1 + i % 3], 'more', jsonb_build_object('a', i % 4, 'b', i % 10007 / 100.0), 'ok', i % 2 = 0, 'none', NULL)
    END,
    (ARRAY['null', 'true', '"a"', '12', '-3.50', '[]', '{}'])[1 + i % 7]::jsonb,
    CASE WHEN i % 5 > 0 THEN (SELECT jsonb_agg(j) FROM generate_series(1, i % 40 + 1) j) END,
    CASE WHEN i % 6 > 0 THEN to_jsonb(((i * 7919 % 20000) - 10000) / (ARRAY[1, 2, 1000, 0.001, 7])[1 + i % 5]) ELSE 'null' END,
    (ARRAY['{more,a}', '{}', '{more,a,-1}', '{a,NULL}', '{1, a}', '{ 0}', '{x,y,z}', '{more}'])[1 + i % 8]::text[],
    (ARRAY['status', 'a', 'more', 'k33', '', 'id'])[1 + i % 6], i % 7 - 3,
    (ARRAY[' 12', '-3', '+004', '7 ', NULL])[1 + i % 5]
FROM generate_series(1, 12000) i;
SET howdah.load_threshold = 1000000;
INSERT INTO t SELECT (t).* FROM (SELECT t FROM t WHERE id % 100 < 11) t;
INSERT INTO t (id, doc) SELECT 0, jsonb_build_object('status', 'paid', 'long', repeat(md5('a'), 2000), 'number', repeat('1234567890', 9)::numeric / 3);
UPDATE t SET doc = doc || '{"status": "changed"}' WHERE id % 97 = 0 AND jsonb_typeof(doc) = 'object';
DELETE FROM t WHERE id % 89 = 0;
ANALYZE t;
CREATE FUNCTION plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; taken boolean := false; evaluated boolean := false;
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        taken := taken OR line LIKE '%(Vectorized)%';
        evaluated := evaluated OR line LIKE '%Evaluated by PostgreSQL%';
    END LOOP;
    RETURN CASE WHEN NOT taken THEN 'not vectorized' WHEN evaluated THEN 'evaluated by PostgreSQL' END;
END $$;
CREATE TABLE query (id int GENERATED ALWAYS AS IDENTITY, text text) USING heap;
INSERT INTO query (text) VALUES
    ('SELECT count(*) FROM t WHERE doc->>''status'' = ''paid'''),
    ('SELECT doc->>''status'', count(*), min(id) FROM t GROUP BY 1'),
    ('SELECT doc->''more''->>''a'', doc->''more''->>''b'', count(*) FROM t GROUP BY 1, 2'),
    ('SELECT DISTINCT doc->>''more'' FROM t'),
    ('SELECT DISTINCT doc->>key, doc->>at, list->>at FROM t'),
    ('SELECT DISTINCT doc->>0, doc->>-1, doc->2->>''a'' FROM t'),
    ('SELECT DISTINCT doc->>''k33'', doc->>''k70'', doc->>''k1'' FROM t WHERE id < 3000'),
    ('SELECT DISTINCT doc#>>''{more,a}'', doc#>>''{more,a,1}'', doc#>>''{2,a}'', doc#>>''{more,a,x}'', doc#>>''{more, a, 99999999999}'' FROM t'),
    ('SELECT DISTINCT doc#>>''{}'' FROM t WHERE id < 2000'),
    ('SELECT DISTINCT doc#>>path, (doc#>path)->>0 FROM t'),
    ('SELECT DISTINCT one->>0, one#>>''{}'', one->>''a'', jsonb_typeof(one) FROM t'),
    ('SELECT count(doc->''none''), count(doc->>''none''), count(doc->5), count(doc#>path), count(one->0) FROM t'),
    ('SELECT count(*) FROM t WHERE doc ? ''status'''),
    ('SELECT key, count(*) FROM t WHERE doc ? key GROUP BY key'),
    ('SELECT count(*) FROM t WHERE doc ?| ARRAY[''k70'', NULL, ''a'']'),
    ('SELECT count(*) FROM t WHERE doc ?& ARRAY[''id'', ''ok'', NULL]'),
    ('SELECT count(*) FROM t WHERE doc ?| path AND NOT doc ?& path'),
    ('SELECT count(*) FROM t WHERE doc ?& ''{}'' AND NOT doc ?| ''{}'''),
    ('SELECT count(*) FROM t WHERE doc @> ''{"more": {"a": 2.0}}'''),
    ('SELECT count(*) FROM t WHERE doc @> ''{"ok": true, "none": null}'' OR doc @> ''[{}, "a"]'''),
    ('SELECT count(*) FROM t WHERE doc @> ''"a"'' OR doc @> ''["status"]'' OR doc @> ''3.00'''),
    ('SELECT count(*) FROM t WHERE list @> ''[3, 7]'' AND NOT list @> ''[[3]]'' AND ''[5]'' <@ list'),
    ('SELECT count(*) FROM t WHERE one <@ list OR one @> num OR doc @> one'),
    ('SELECT count(*) FROM t WHERE doc @> doc'),
    ('SELECT jsonb_typeof(doc), jsonb_typeof(doc->''id''), count(*) FROM t GROUP BY 1, 2'),
    ('SELECT jsonb_array_length(list), count(*), sum(jsonb_array_length(list)) FROM t GROUP BY 1'),
    ('SELECT sum(num::int), sum(num::int8), sum(num::numeric), min(num::float8), max(num::float4) FROM t'),
    ('SELECT num::numeric, count(*) FROM t GROUP BY 1'),
    ('SELECT sum((doc->''id'')::int), max((doc->''more''->''b'')::numeric), bool_or((doc->''ok'')::bool) FROM t WHERE id % 11 > 7'),
    ('SELECT sum((doc->>''id'')::int), avg((doc->''more''->>''b'')::numeric), max((doc->''more''->>''b'')::float8), bool_and((doc->>''ok'')::bool) FROM t WHERE id % 11 > 7'),
    ('SELECT n::int, count(*), sum(n::int8), max(n::int2), min(n::numeric), max(n::float4) FROM t GROUP BY 1'),
    ('SELECT count(*) FROM t WHERE (doc->>''id'') IS NOT NULL AND doc->''more'' IS NOT NULL AND (doc->>''status'') LIKE ''%mit%'''),
    ('SELECT count(*) FROM t WHERE doc->>''status'' IN (''new'', ''changed'', ''none'') AND length(doc->>''status'') > 3'),
    ('SELECT count(*) FROM t WHERE id = 0 AND length(doc->>''long'') = 64000 AND doc->>''number'' LIKE ''%.%'''),
    -- Conjuncts before an error guard it.
    ('SELECT sum((doc->>''id'')::int) FROM t WHERE jsonb_typeof(doc) = ''object'' AND (doc->>''id'')::int > 7');
SELECT id, plan(text), text FROM query WHERE :cold AND plan(text) IS NOT NULL ORDER BY id;
SELECT id, dig(text) FROM query ORDER BY id;
SET howdah.threads = 0;
SELECT md5(string_agg(dig(text), ' ' ORDER BY id)) FROM query;
SET howdah.vectorized = off;
SELECT md5(string_agg(dig(text), ' ' ORDER BY id)) FROM query;
RESET howdah.vectorized;
-- Parameters, of both kinds of plans.
SET plan_cache_mode = force_generic_plan;
PREPARE of(text, int, text[], jsonb) AS SELECT count(doc->>$1), count(doc->$2), count(doc#>$3), count(*) FILTER (WHERE doc @> $4), count(*) FILTER (WHERE doc ?| $3) FROM t;
EXECUTE of('status', -1, '{more,a}', '{"ok": true}');
EXECUTE of(NULL, NULL, NULL, NULL);
SET plan_cache_mode = force_custom_plan;
EXECUTE of('status', -1, '{more,a}', '{"ok": true}');
EXECUTE of('', 0, '{NULL}', '[]');
-- What is no number or no array is PostgreSQL's error, with its message.
SELECT sum(one::int) FROM t;
SELECT sum((doc->'id')::int), sum((doc->'status')::int) FROM t WHERE id % 11 = 8;
SELECT sum((doc->>'status')::int) FROM t WHERE id % 11 = 8;
SELECT sum((doc->>'status')::numeric) FROM t WHERE id % 11 = 8;
SELECT bool_or((doc->>'status')::bool) FROM t WHERE id % 11 = 8;
SELECT sum(jsonb_array_length(doc)) FROM t WHERE id = 4;
SELECT sum((num::numeric * 1e30)::numeric), sum((num->>0)::int2) FROM t;
SELECT count(num::int2) FROM t WHERE num > '100000';
-- Numbers of a few bytes whose texts are long: a few, and more than the engine holds.
CREATE TABLE long (id int, doc jsonb);
INSERT INTO long SELECT i, ('{"a": 1e' || 131000 - i % 3 || ', "b": 12345678901234567890.' || i || '}')::jsonb FROM generate_series(1, 700) i;
ANALYZE long;
SELECT sum(length(doc->>'a')), count(DISTINCT doc->>'a'), max(doc->>'b'), md5(max(doc->>'a')) FROM long WHERE id < 20;
SELECT count(*), max(length(doc::text)) FROM long WHERE doc->>'a' > '1' AND doc#>>'{b}' <> 'x';
DROP SCHEMA vectorized_jsonb CASCADE;
