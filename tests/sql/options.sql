-- Options of tables: set, reset, refused, followed through renames and drops, owner's rights.
CREATE SCHEMA options;
SET search_path = options, public;
CREATE TABLE t (id int, day date, word text, doc json, twice int GENERATED ALWAYS AS (id * 2) VIRTUAL) USING howdah;
CREATE TABLE plain (id int) USING heap;
CREATE TABLE parent (id int) PARTITION BY RANGE (id);
CREATE VIEW mine AS
    SELECT relation, sort_key, compression_effort, compact_after, compact_min_rows, compaction
    FROM howdah.options ORDER BY relation::text;

-- Only what is given changes.
SELECT howdah.set_options('t', sort_key => '{day,id}');
TABLE mine;
SELECT howdah.set_options('t', compression_effort => 'best', compact_after => '1 day 2 hours');
SELECT howdah.set_options('t', compact_min_rows => 0, compaction => false);
SELECT howdah.set_options('t');
TABLE mine;
SELECT howdah.reset_options('t', 'compaction');
SELECT howdah.reset_options('t', 'compact_after');
TABLE mine;
SELECT howdah.reset_options('t');
TABLE mine;
SELECT howdah.set_options('t', compact_min_rows => 7);
SELECT howdah.reset_options('t', 'compact_min_rows');
TABLE mine;
SELECT howdah.set_options('t', sort_key => '{word}');
SELECT howdah.set_options('t', sort_key => '{}');
TABLE mine;

-- What is refused.
SELECT howdah.set_options(NULL);
SELECT howdah.set_options('t', sort_key => '{nothing}');
SELECT howdah.set_options('t', sort_key => '{ctid}');
SELECT howdah.set_options('t', sort_key => '{id,day,id}');
SELECT howdah.set_options('t', sort_key => '{id,NULL}');
SELECT howdah.set_options('t', sort_key => '{doc}');
SELECT howdah.set_options('t', sort_key => '{twice}');
SELECT howdah.set_options('t', compression_effort => 'extreme');
SELECT howdah.set_options('t', compact_after => '-1 second');
SELECT howdah.set_options('t', compact_after => 'infinity');
SELECT howdah.set_options('t', compact_after => '1 day -25 hours');
SELECT howdah.set_options('t', compact_min_rows => -1);
SELECT howdah.reset_options('t', 'sortkey');
SELECT howdah.set_options('plain', compaction => false);
SELECT howdah.set_options('parent', compaction => false);
SELECT howdah.set_options('mine', compaction => false);
SELECT howdah.set_options('pg_class', compaction => false);
TABLE mine;

-- The sort key follows its columns, the row its table.
SELECT howdah.set_options('t', sort_key => '{day,word,id}');
ALTER TABLE t RENAME COLUMN word TO "a Word";
TABLE mine;
ALTER TABLE t RENAME TO "Other name";
TABLE mine;
ALTER TABLE "Other name" ALTER COLUMN day SET STATISTICS 10;
ALTER TABLE "Other name" ALTER COLUMN day SET NOT NULL;
BEGIN;
ALTER TABLE "Other name" RENAME COLUMN day TO night;
TABLE mine;
ROLLBACK;
TABLE mine;
ALTER TABLE "Other name" DROP COLUMN "a Word";
TABLE mine;
ALTER TABLE "Other name" DROP COLUMN id CASCADE;
TABLE mine;
BEGIN;
ALTER TABLE "Other name" DROP COLUMN day;
TABLE mine;
ROLLBACK;
TABLE mine;
BEGIN;
DROP TABLE "Other name";
TABLE mine;
ROLLBACK;
TABLE mine;
DROP TABLE "Other name";
TABLE mine;
-- Renames reach the tables that inherit, or are partitions.
CREATE TABLE part PARTITION OF parent FOR VALUES FROM (0) TO (100) USING howdah;
SELECT howdah.set_options('part', sort_key => '{id}');
ALTER TABLE parent RENAME id TO number;
TABLE mine;
DROP TABLE parent;
TABLE mine;
-- A dropped schema takes the options of its tables along.
CREATE SCHEMA gone CREATE TABLE t (id int) USING howdah;
SELECT howdah.set_options('gone.t', compaction => false);
SET client_min_messages = warning;
DROP SCHEMA gone CASCADE;
RESET client_min_messages;
TABLE mine;
-- Options are security labels: what a dump says, and what is refused.
CREATE TABLE h (id int, word text) USING howdah;
CREATE VIEW labels AS
    SELECT objtype, objname, label FROM pg_seclabels WHERE provider = 'howdah' AND objnamespace = 'options'::regnamespace
    ORDER BY objtype DESC, objname, objsubid;
SELECT howdah.set_options('h', sort_key => '{word,id}', compression_effort => 'fast', compact_after => '1 mon 2 days 3.5 s',
                          compact_min_rows => 9, compaction => true);
TABLE labels;
SECURITY LABEL FOR howdah ON TABLE h IS 'compaction=off,compact_after=PT1H30M';
SECURITY LABEL FOR howdah ON COLUMN h.word IS NULL;
TABLE mine;
SECURITY LABEL FOR howdah ON COLUMN h.word IS 'sort_key=1';
TABLE mine;
SECURITY LABEL FOR howdah ON TABLE h IS 'compression_effort=extreme';
SECURITY LABEL FOR howdah ON TABLE h IS 'compact_after=1 day';
SECURITY LABEL FOR howdah ON TABLE h IS 'sort_key=1';
SECURITY LABEL FOR howdah ON TABLE h IS 'classified';
SECURITY LABEL FOR howdah ON TABLE h IS 'compaction=on, compaction=off';
SECURITY LABEL FOR howdah ON COLUMN h.id IS 'sort_key=0';
SECURITY LABEL FOR howdah ON COLUMN h.id IS 'compaction=off';
SECURITY LABEL FOR howdah ON COLUMN h.ctid IS 'sort_key=1';
SECURITY LABEL FOR howdah ON TABLE pg_class IS 'compaction=off';
SECURITY LABEL FOR howdah ON VIEW mine IS 'compaction=off';
SECURITY LABEL FOR howdah ON COLUMN mine.sort_key IS 'sort_key=1';
SECURITY LABEL FOR howdah ON SCHEMA options IS 'compaction=off';
CREATE TABLE divided (id int) PARTITION BY RANGE (id);
SECURITY LABEL FOR howdah ON TABLE divided IS 'compaction=off';
SECURITY LABEL FOR howdah ON COLUMN divided.id IS 'sort_key=1';
TABLE mine;
SECURITY LABEL FOR howdah ON TABLE h IS NULL;
SELECT howdah.reset_options('h', 'sort_key');
TABLE labels;
-- Of one statement, each call sees what those before it did.
SELECT howdah.set_options('h', sort_key => '{id}'), howdah.set_options('h', sort_key => '{word,id}'),
       howdah.set_options('h', compaction => false), howdah.reset_options('h', 'compaction');
TABLE labels;
-- They are not inherited, nor copied.
CREATE TABLE child () INHERITS (h) USING howdah;
CREATE TABLE alike (LIKE h INCLUDING ALL) USING howdah;
CREATE TEMP TABLE passing (id int) USING howdah;
SELECT howdah.set_options('passing', sort_key => '{id}');
TABLE mine;
DROP TABLE child, alike, passing;
-- A column that comes back under its old name is another one.
BEGIN;
ALTER TABLE h DROP COLUMN word;
ALTER TABLE h ADD COLUMN word text;
TABLE mine;
ROLLBACK;
-- A rewritten table keeps them; one that leaves howdah loses them, so that its dump needs no howdah.
VACUUM FULL h;
TRUNCATE h;
ALTER TABLE h ALTER word TYPE varchar(50), SET UNLOGGED;
TABLE labels;
ALTER TABLE h SET ACCESS METHOD heap;
TABLE labels;
-- On a heap table a label waits for its day: a dump may be restored without access methods.
SECURITY LABEL FOR howdah ON COLUMN h.id IS 'sort_key=1';
SELECT howdah.adopt('h');
TABLE mine;
SELECT howdah.release('h');
TABLE labels;
SELECT howdah.adopt('h');
-- No publication publishes anything of the extension's, and no dump has rows of it.
SET client_min_messages = error;
CREATE PUBLICATION everything FOR ALL TABLES;
RESET client_min_messages;
SELECT * FROM pg_publication_tables WHERE pubname = 'everything' AND schemaname = 'howdah';
SELECT DISTINCT relkind, reltoastrelid FROM pg_class WHERE relnamespace = 'howdah'::regnamespace AND reltype <> 0 ORDER BY 1;
SELECT extconfig FROM pg_extension WHERE extname = 'howdah';
DROP PUBLICATION everything;
-- A statement that names another provider, or none, does not meet howdah.
\c -
SET search_path = options, public;
SECURITY LABEL ON TABLE h IS 'compaction=off';
SECURITY LABEL FOR other ON TABLE h IS 'compaction=off';

-- The effort of a table comes before the setting, and changes at once.
CREATE FUNCTION stored() RETURNS bigint LANGUAGE sql AS
    $$SELECT cold_bytes FROM howdah.tables WHERE relation = 'h'::regclass$$;
CREATE FUNCTION load_and_measure() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    TRUNCATE h;
    SET LOCAL howdah.load_threshold = 0;
    INSERT INTO h SELECT (i * 7919) % 1000 FROM generate_series(1, 50000) i;
    RETURN stored();
END $$;
SELECT load_and_measure() AS default_bytes \gset
SELECT howdah.set_options('h', compression_effort => 'best');
SELECT load_and_measure() AS best_bytes \gset
SELECT howdah.reset_options('h');
SET howdah.compression_effort = 'best';
SELECT load_and_measure() AS setting_bytes \gset
SELECT howdah.set_options('h', compression_effort => 'default');
SELECT load_and_measure() AS again_bytes \gset
RESET howdah.compression_effort;
SELECT :best_bytes < :default_bytes AS best_is_smaller, :best_bytes = :setting_bytes AS same_by_setting, :again_bytes = :default_bytes AS option_wins;

-- Owner's rights.
CREATE ROLE howdah_stranger;
CREATE ROLE howdah_owner;
GRANT ALL ON SCHEMA options TO howdah_stranger, howdah_owner;
ALTER TABLE h OWNER TO howdah_owner;
SET ROLE howdah_stranger;
SELECT howdah.set_options('h', compaction => false);
SELECT howdah.reset_options('h');
SECURITY LABEL FOR howdah ON TABLE h IS 'compaction=off';
SECURITY LABEL FOR howdah ON COLUMN h.id IS 'sort_key=1';
SECURITY LABEL FOR howdah ON TABLE h IS NULL;
DELETE FROM howdah.options;
SET ROLE howdah_owner;
SELECT howdah.set_options('h', compaction => false);
SELECT compaction FROM howdah.options WHERE relation = 'h'::regclass;
SECURITY LABEL FOR howdah ON TABLE h IS NULL;
SELECT count(*) FROM howdah.options WHERE relation = 'h'::regclass;
SELECT howdah.reset_options('h');
RESET ROLE;
TABLE mine;

-- Nothing breaks in a database without the extension's objects.
BEGIN;
DROP EXTENSION howdah CASCADE;
CREATE TABLE without (id int);
DROP TABLE without;
ROLLBACK;

SET client_min_messages = warning;
DROP SCHEMA options CASCADE;
DROP ROLE howdah_stranger, howdah_owner;
