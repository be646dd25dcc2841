-- ANALYZE of tables that are all hot, all cold and mixed: statistics near those of a heap twin.
CREATE SCHEMA stats;
SET search_path = stats;
SELECT setseed(0.5);
CREATE TABLE heap_twin (id int, few text, skewed int, gaps numeric, noise float8, day date) USING heap;
INSERT INTO heap_twin
  SELECT i, 'x' || i % 1000, (random() * random() * 200)::int, CASE WHEN i % 5 = 0 THEN NULL ELSE (i % 12345) / 7.0 END,
         random(), date '2020-01-01' + i / 100
  FROM generate_series(1, 100000) i;
SET howdah.load_threshold = 0;
CREATE TABLE cold USING howdah AS SELECT * FROM heap_twin;
SET howdah.bulk_load = off;
CREATE TABLE hot USING howdah AS SELECT * FROM heap_twin;
CREATE TABLE mixed (LIKE heap_twin) USING howdah;
INSERT INTO mixed SELECT * FROM heap_twin WHERE id <= 40000;
SET howdah.bulk_load = on;
INSERT INTO mixed SELECT * FROM heap_twin WHERE id > 40000;
SELECT relname, pg_relation_size(oid) > 8192 AS more_than_a_page FROM pg_class
  WHERE relnamespace = 'stats'::regnamespace AND relkind = 'r' ORDER BY 1;

ANALYZE;
SELECT relname, reltuples FROM pg_class WHERE relnamespace = 'stats'::regnamespace AND relkind = 'r' ORDER BY 1;

-- Distinct values as a number of rows, so that both ways of writing it compare.
CREATE VIEW facts AS
  SELECT tablename, attname, null_frac, avg_width, correlation, most_common_freqs[1] AS top,
         CASE WHEN n_distinct < 0 THEN -n_distinct * 100000 ELSE n_distinct END AS distinct_values
  FROM pg_stats WHERE schemaname = 'stats';
SELECT s.tablename, s.attname,
       abs(s.null_frac - h.null_frac) < 0.02 AS nulls,
       abs(s.avg_width - h.avg_width) <= 1 AS width,
       abs(s.correlation - h.correlation) < 0.06 AS correlation,
       s.distinct_values BETWEEN h.distinct_values * 0.85 AND h.distinct_values * 1.18 AS distinct_values,
       abs(coalesce(s.top, 0) - coalesce(h.top, 0)) < 0.01 AS most_common
  FROM facts s JOIN facts h USING (attname)
  WHERE h.tablename = 'heap_twin' AND s.tablename <> 'heap_twin' ORDER BY 1, 2;

-- Without a single hot row, and after the hot rows are gone.
DELETE FROM mixed WHERE id <= 40000;
VACUUM mixed;
SELECT reltuples FROM pg_class WHERE oid = 'mixed'::regclass;
ANALYZE mixed;
SELECT reltuples FROM pg_class WHERE oid = 'mixed'::regclass;
VACUUM cold;
VACUUM ANALYZE cold;
SELECT reltuples, pg_relation_size('cold') FROM pg_class WHERE oid = 'cold'::regclass;

-- Some columns only; more rows than the sample holds.
ALTER TABLE cold ALTER COLUMN skewed SET STATISTICS 10, ALTER COLUMN few SET STATISTICS 20;
SET default_statistics_target = 10;
ANALYZE cold (skewed, few);
SELECT abs(reltuples - 100000) < 1 AS rows_right FROM pg_class WHERE oid = 'cold'::regclass;

-- Rows of this very transaction count.
BEGIN;
INSERT INTO cold SELECT * FROM heap_twin LIMIT 20000;
ANALYZE cold;
SELECT reltuples FROM pg_class WHERE oid = 'cold'::regclass;
ROLLBACK;
ANALYZE cold;
SELECT reltuples FROM pg_class WHERE oid = 'cold'::regclass;
RESET default_statistics_target;

-- A partitioned table, one partition howdah and one heap.
CREATE TABLE parts (id int, v int) PARTITION BY RANGE (id);
CREATE TABLE parts_cold PARTITION OF parts FOR VALUES FROM (0) TO (30000) USING howdah;
CREATE TABLE parts_heap PARTITION OF parts FOR VALUES FROM (30000) TO (60000) USING heap;
INSERT INTO parts SELECT i, i % 10 FROM generate_series(0, 59999) i;
ANALYZE parts;
SELECT relname, reltuples FROM pg_class WHERE relname LIKE 'parts%' AND relnamespace = 'stats'::regnamespace ORDER BY 1;
SELECT tablename, inherited, n_distinct FROM pg_stats WHERE schemaname = 'stats' AND tablename LIKE 'parts%' AND attname = 'v' ORDER BY 1, 2;

-- A cold partition counts by its rows, beside hot ones and other cold ones.
CREATE TABLE shares (m int, status int, v int) PARTITION BY LIST (m);
CREATE TABLE shares_cold PARTITION OF shares FOR VALUES IN (1) USING howdah;
CREATE TABLE shares_hot PARTITION OF shares FOR VALUES IN (2) USING howdah;
CREATE TABLE shares_few PARTITION OF shares FOR VALUES IN (3) USING howdah;
INSERT INTO shares SELECT 1, 1, i FROM generate_series(1, 60000) i;
INSERT INTO shares SELECT 3, -1, i FROM generate_series(1, 10000) i;
SET howdah.bulk_load = off;
INSERT INTO shares SELECT 2, 2 + i % 1000, i FROM generate_series(1, 30000) i;
RESET howdah.bulk_load;
ANALYZE shares;
SELECT m, round(f::numeric, 1) AS frequency
FROM pg_stats, unnest(most_common_vals::text::int[], most_common_freqs) AS common (m, f)
WHERE schemaname = 'stats' AND tablename = 'shares' AND attname = 'm' ORDER BY m;
SELECT relname, reltuples FROM pg_class WHERE relname LIKE 'shares_%' AND relnamespace = 'stats'::regnamespace ORDER BY 1;

SET client_min_messages = warning;
DROP SCHEMA stats CASCADE;
