-- What a transaction that may not write is refused.
SET default_table_access_method = howdah;
SET howdah.load_threshold = 0;
CREATE TABLE looked_at (id int PRIMARY KEY, n int);
INSERT INTO looked_at SELECT i, i FROM generate_series(1, 1000) i;
DELETE FROM looked_at WHERE id <= 10;
SET default_transaction_read_only = on;
SELECT count(*), sum(n) FROM looked_at;
SELECT n FROM looked_at WHERE id = 17;
EXPLAIN (COSTS OFF) SELECT sum(n) FROM looked_at;
DELETE FROM looked_at;
SELECT n FROM looked_at WHERE id = 17 FOR UPDATE;
SELECT howdah.adopt('looked_at');
SELECT howdah.release('looked_at');
SELECT howdah.set_options('looked_at', compaction => false);
SELECT howdah.reset_options('looked_at');
-- Maintenance changes nothing that can be seen: as VACUUM, it is allowed.
VACUUM looked_at;
CALL howdah.compact('looked_at');
SET default_transaction_read_only = off;
DROP TABLE looked_at;
