-- Functions that depend on the time zone of the session give the same with the engine and without, in many
-- zones, above all where their clocks change.
CREATE SCHEMA vectorized_zones;
SET search_path = vectorized_zones, public;
\getenv directory PG_ABS_SRCDIR
\set vectorized :directory '/sql/vectorized.psql'
\i :vectorized
SET jit = off;
CREATE TABLE z (id int, k int, t timestamptz, l timestamp, d date) USING howdah;
-- Days on which clocks of some place were put forward or back, or days left out or repeated.
INSERT INTO z SELECT g, g % 7, ts AT TIME ZONE 'UTC', ts, ts::date
FROM unnest('{1883-11-18, 1892-07-04, 1916-05-01, 1919-11-13, 1940-06-16, 1945-05-24, 1972-01-07, 1986-01-01, 1994-12-31, 2005-04-03,
        2009-03-29, 2011-12-30, 2014-10-26, 2016-05-01, 2018-05-05, 2018-11-04, 2020-03-29, 2020-10-25, 2021-04-04, 2024-03-10, 2024-11-03,
        2037-10-25, 2099-03-29, 2199-03-31}'::date[]) day,
    generate_series(day - interval '50 hours', day + interval '50 hours', '29 minutes 59.75 seconds') WITH ORDINALITY AS s (ts, g);
INSERT INTO z SELECT g, g % 7, ts AT TIME ZONE 'UTC', ts, ts::date
FROM generate_series(timestamp '1800-01-01', '2199-12-01', '44 days 3 hours 0.000001 seconds') WITH ORDINALITY AS s (ts, g);
INSERT INTO z SELECT g, g % 7, ts AT TIME ZONE 'UTC', ts, ts::date
FROM unnest('{infinity, -infinity, 4713-06-01 BC, 0001-01-01 BC, NULL}'::timestamp[]) WITH ORDINALITY AS s (ts, g), generate_series(1, 7);
CALL howdah.compact('z');
INSERT INTO z SELECT id, k, t + interval '10 minutes', l + interval '10 minutes', d FROM z WHERE id < 20;
DELETE FROM z WHERE id % 10 = 3 AND isfinite(t);
ANALYZE z;
CREATE TABLE query (id int GENERATED ALWAYS AS IDENTITY, text text) USING heap;
INSERT INTO query (text) VALUES
    ('SELECT k, t::date AS a, t::timestamp AS b, l::timestamptz AS c, d::timestamptz AS d, count(*) FROM z GROUP BY 1, 2, 3, 4, 5'),
    ('SELECT k, date_trunc(''day'', t) AS a, date_trunc(''hour'', t) AS b, date_trunc(''sec'', t) AS c, count(*) FROM z GROUP BY 1, 2, 3, 4'),
    ('SELECT k, date_trunc(''week'', t) AS a, date_trunc(''month'', t) AS b, date_trunc(''qtr'', t) AS c, date_trunc(''decade'', t) AS d,
        min(date_trunc(''millennium'', t)), max(l::date) FROM z GROUP BY 1, 2, 3, 4, 5'),
    ('SELECT k, count(*), min(t), max(t) FROM z WHERE t::date > ''1940-06-16'' AND date_trunc(''century'', t) < ''2001-01-01'' GROUP BY 1');
-- What a query gives in a zone, and whether the engine computed it.
CREATE FUNCTION answer(query text, zone text, engine boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE line text; state text := ''; digest text;
BEGIN
    PERFORM set_config('timezone', zone, true), set_config('howdah.vectorized', engine::text, true);
    EXECUTE format('SELECT md5(string_agg(s::text, '','' ORDER BY s)) FROM (%s) s', query) INTO digest;
    IF engine THEN
        FOR line IN EXECUTE 'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) ' || query LOOP
            IF line LIKE '%(Vectorized)%' AND state = '' THEN state := 'engine'; END IF;
            IF line LIKE '%Computed By%' THEN state := line; END IF;
        END LOOP;
    ELSE state := 'engine';
    END IF;
    RETURN state || ' ' || digest;
END $$;
CREATE TABLE zone USING heap AS
SELECT name FROM (SELECT name, row_number() OVER (ORDER BY name COLLATE "C") FROM pg_timezone_names WHERE name !~ '^posix') s WHERE row_number % 25 = 0
UNION SELECT unnest('{UTC, Europe/Berlin, Europe/Dublin, America/New_York, America/Sao_Paulo, America/St_Johns, Australia/Lord_Howe, Africa/Casablanca,
    Africa/Monrovia, Asia/Kathmandu, Asia/Manila, Asia/Pyongyang, Pacific/Apia, Pacific/Kwajalein, Antarctica/Troll, <+0330>-3:30, EST5EDT}'::text[]);
SELECT count(*) > 20 AS enough FROM zone;
SELECT id, name, answer(text, name, true) AS engine, answer(text, name, false) AS without FROM query, zone
WHERE answer(text, name, true) <> answer(text, name, false) ORDER BY id, name;
-- Timestamps beyond those of which the engine knows the zone are left to PostgreSQL, in zones that have summer time.
INSERT INTO z SELECT g, g % 7, timestamptz '2299-06-01Z' + g * interval '1 day', timestamp '2299-06-01', '2299-06-01' FROM generate_series(1, 200) g;
CALL howdah.compact('z');
SELECT name, substr(answer(text, name, true), 1, 70) <> answer(text, name, false) AS differs,
    answer(text, name, true) LIKE 'engine%' AS engine, right(answer(text, name, true), 32) = right(answer(text, name, false), 32) AS equal
FROM query, (VALUES ('Europe/Berlin'), ('Asia/Kathmandu')) v (name) WHERE id = 1 ORDER BY name;
-- So are all where summer time lasts all year.
SELECT DISTINCT name, answer(text, name, true) LIKE 'engine%' AS engine, right(answer(text, name, true), 32) = right(answer(text, name, false), 32) AS equal
FROM query, (VALUES ('EST5EDT,0/0,J365/25'), ('<-03>3<-02>,0/0,J365/25'), ('XXX3EDT4,0/0,J365/23')) v (name) ORDER BY name;
-- A prepared statement is computed in the zone of its execution.
PREPARE days AS SELECT t::date AS day, count(*) FROM z WHERE id < 4 AND k = 1 AND t > '2020-03-20Z' AND t < '2020-04-01Z' GROUP BY 1 ORDER BY 1;
SET plan_cache_mode = force_generic_plan;
SET timezone = 'Pacific/Kiritimati';
EXECUTE days;
SET timezone = 'Pacific/Pago_Pago';
EXECUTE days;
RESET timezone;
SET client_min_messages = error;
DROP SCHEMA vectorized_zones CASCADE;
