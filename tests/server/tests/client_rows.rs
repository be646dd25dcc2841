//! What the client receives, byte by byte: rows that are written by our receiver are those that
//! PostgreSQL's own receiver sends of the same table.
//!
//! Two sessions run each statement: one reads the table by ColumnarScan or by index, and our
//! receiver writes the rows; the other by a sequential scan, whose rows PostgreSQL writes. Every
//! message counts, up to the error that ends a result in the middle.

use std::io::{BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, bail, ensure};
use howdah_server_tests::cluster::{DATABASE, Primary, query};

/// A message of the server: its kind and its body.
type Message = (u8, Vec<u8>);

/// A session that sees messages as they are.
struct Wire {
    to: UnixStream,
    from: BufReader<UnixStream>,
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u32 + 4).to_be_bytes();
    [&[kind], &len[..], body].concat()
}

impl Wire {
    fn open(primary: &Primary) -> anyhow::Result<Wire> {
        let socket = primary.socket.join(format!(".s.PGSQL.{}", primary.port));
        let to = UnixStream::connect(socket)?;
        let from = BufReader::new(to.try_clone()?);
        let mut wire = Wire { to, from };
        let mut start = 196_608_u32.to_be_bytes().to_vec();
        start.extend(format!("user\0{}\0database\0{DATABASE}\0\0", primary.superuser).bytes());
        let len = (start.len() as u32 + 4).to_be_bytes();
        wire.to.write_all(&[&len[..], &start].concat())?;
        wire.until_ready()?;
        Ok(wire)
    }

    /// The next message that is not about a setting.
    fn next(&mut self) -> anyhow::Result<Message> {
        loop {
            let mut head = [0; 5];
            self.from.read_exact(&mut head)?;
            let [kind, len @ ..] = head;
            let len = u32::from_be_bytes(len).checked_sub(4).context("a length")?;
            let mut body = vec![0; len as usize];
            self.from.read_exact(&mut body)?;
            match kind {
                b'S' | b'N' => {}
                // Of an error, its code and its text: lines of source differ.
                b'E' => {
                    let fields = body.split(|&byte| byte == 0);
                    let told = fields.filter(|field| matches!(field.first(), Some(b'C' | b'M')));
                    return Ok((kind, told.collect::<Vec<_>>().join(&b'\n')));
                }
                _ => return Ok((kind, body)),
            }
        }
    }

    fn until_ready(&mut self) -> anyhow::Result<Vec<Message>> {
        let mut messages = Vec::new();
        loop {
            let message = self.next()?;
            let is_ready = message.0 == b'Z';
            messages.push(message);
            if is_ready {
                return Ok(messages);
            }
        }
    }

    fn simple(&mut self, sql: &str) -> anyhow::Result<Vec<Message>> {
        self.to
            .write_all(&message(b'Q', &[sql.as_bytes(), b"\0"].concat()))?;
        self.until_ready()
    }

    /// By the extended protocol, so many rows at a time (0: all), in these formats: one for all
    /// columns, or one for each.
    fn extended(&mut self, sql: &str, rows: u32, formats: &[u16]) -> anyhow::Result<Vec<Message>> {
        let execute = [
            message(b'E', &[&b"\0"[..], &rows.to_be_bytes()].concat()),
            message(b'H', b""),
        ]
        .concat();
        let count = (formats.len() as u16).to_be_bytes();
        let formats = formats.iter().flat_map(|format| format.to_be_bytes());
        let bind = [&[0; 6][..], &count, &formats.collect::<Vec<_>>()].concat();
        let begin = [
            message(b'P', &[&b"\0"[..], sql.as_bytes(), b"\0\0\0"].concat()),
            message(b'B', &bind),
            message(b'D', b"P\0"),
        ];
        self.to
            .write_all(&[begin.concat(), execute.clone()].concat())?;
        let mut messages = Vec::new();
        loop {
            let next = self.next()?;
            let kind = next.0;
            messages.push(next);
            match kind {
                b's' => self.to.write_all(&execute)?,
                b'C' | b'E' => break,
                _ => {}
            }
        }
        self.to.write_all(&message(b'S', b""))?;
        messages.extend(self.until_ready()?);
        Ok(messages)
    }
}

/// Every way in which a type is written: by us, by us but for some values, by its output function.
/// Empty lines separate what runs by itself.
const LOAD: &str = "
CREATE DOMAIN whole AS int;
CREATE TYPE mood AS ENUM ('sad', 'o k');
CREATE TABLE t (id int, i2 int2, i8 int8, b bool, f4 float4, f8 float8, s text, v varchar, c char(12), n numeric,
    d date, ts timestamp, tz timestamptz, iv interval, u uuid, by bytea, j json, jb jsonb, w whole, m mood, a int[],
    gone int, o \"char\") USING howdah;
INSERT INTO t SELECT i,
    CASE WHEN i % 7 > 0 THEN (i * 37) % 65536 - 32768 END,
    CASE i % 4 WHEN 1 THEN '-9223372036854775808' WHEN 2 THEN 9223372036854775807 WHEN 3 THEN (i * 10 ^ (i % 12))::int8 END,
    CASE i % 3 WHEN 1 THEN true WHEN 2 THEN false END,
    CASE i % 4 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '-0' ELSE (i * 1.1e-3)::float4 END,
    CASE i % 5 WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' WHEN 2 THEN 1e300 * i WHEN 3 THEN 1e-300 * i ELSE i / 7.0 END,
    CASE i % 9 WHEN 1 THEN '' WHEN 2 THEN E'tab\\there' WHEN 3 THEN E'\\n\\r\\\\\\b\\f\\v\\x01' WHEN 4 THEN repeat('é€😀', i % 50)
        WHEN 5 THEN repeat(md5(i::text), 100) WHEN 6 THEN repeat('x', i % 200) || E'\\\\' WHEN 7 THEN '\\N' WHEN 8 THEN md5(i::text) END,
    CASE WHEN i % 13 > 0 THEN substr(md5(i::text), 1, i % 33) END, substr(md5(i::text), 1, i % 12),
    CASE i % 9 WHEN 1 THEN 'NaN' WHEN 2 THEN '-Infinity' WHEN 3 THEN 0 WHEN 4 THEN i::numeric / 1000 WHEN 5 THEN -i * 1e20
        WHEN 6 THEN i::numeric / 1e12 WHEN 7 THEN i + 0.50 WHEN 8 THEN (10 ^ (i % 300)::numeric) / 3 END,
    CASE i % 7 WHEN 1 THEN 'infinity' WHEN 2 THEN '-infinity' WHEN 3 THEN '0044-03-15 BC'::date - i
        WHEN 4 THEN '9999-12-28'::date + i % 10 WHEN 5 THEN '0001-01-03'::date - i % 6 WHEN 6 THEN '1990-01-01'::date + i * 3 END,
    CASE i % 7 WHEN 1 THEN 'infinity' WHEN 2 THEN '-infinity' WHEN 3 THEN '0044-03-15 BC'::timestamp - i * interval '1h'
        WHEN 4 THEN '9999-12-31 23:59:58.5'::timestamp + i % 5 * interval '1s'
        WHEN 5 THEN '1999-12-31 23:59:59.999999'::timestamp + i % 3 * interval '1us'
        WHEN 6 THEN '1990-01-01'::timestamp + i * interval '61.0123s' END,
    '1990-01-01 UTC'::timestamptz + i * interval '61.0123s', i * interval '1 day 1.5s' - interval '3 mon',
    CASE WHEN i % 4 > 0 THEN md5(i::text)::uuid END, decode(repeat(md5(i::text), i % 3), 'hex'),
    ('{\"a\": ' || i || ', \"b\":\"x\\ty\"}')::json, jsonb_build_object('a', i, 's', E'q\\n\"'), i - 1000,
    (ARRAY['sad', 'o k'])[1 + i % 2]::mood, ARRAY[i, NULL, -i], 0, chr(33 + i % 90)::\"char\"
FROM generate_series(1, 3000) i;
ALTER TABLE t DROP gone;

CALL howdah.compact('t');

ALTER TABLE t ADD late text DEFAULT E'la\\tte';
INSERT INTO t (id, s, v) SELECT -g, string_agg(md5((g * i)::text), ''), string_agg(md5((g * i + 1)::text), E'\\t')
FROM generate_series(1, 5) g, generate_series(1, 3000) i GROUP BY g;
INSERT INTO t SELECT * FROM t WHERE id BETWEEN 1 AND 50;
CREATE TABLE keyed USING howdah AS SELECT DISTINCT ON (id) * FROM t ORDER BY id;
CREATE TABLE parts (id int, s text) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (MINVALUE) TO (1000) USING howdah;
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (1000) TO (MAXVALUE) USING howdah;
INSERT INTO parts SELECT id, s FROM t;
CREATE TABLE turns (id int, s text) PARTITION BY HASH (id);
CREATE TABLE turns_0 PARTITION OF turns FOR VALUES WITH (MODULUS 2, REMAINDER 0) USING howdah;
CREATE TABLE turns_1 PARTITION OF turns FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING howdah;
INSERT INTO turns SELECT i, 'turn ' || i FROM generate_series(1, 20000) i;
CREATE INDEX ON turns (id);

CALL howdah.compact('turns_0');

CALL howdah.compact('turns_1');

CALL howdah.compact('keyed');

CREATE UNIQUE INDEX ON keyed (id);
UPDATE keyed SET v = 'hot' WHERE id % 50 = 7;

CALL howdah.compact('parts_1');

CALL howdah.compact('parts_2');

VACUUM ANALYZE t, keyed, parts, turns;

CREATE FUNCTION fails(int) RETURNS int LANGUAGE plpgsql AS
    $$BEGIN IF $1 = 2000 THEN RAISE EXCEPTION 'row 2000'; END IF; RETURN $1; END$$;
CREATE FUNCTION changes(int) RETURNS text LANGUAGE plpgsql AS $$BEGIN
    IF $1 % 500 = 0 THEN PERFORM set_config('client_encoding', CASE WHEN $1 % 1000 = 0 THEN 'UTF8' ELSE 'LATIN1' END, false); END IF;
    IF $1 % 300 = 0 THEN
        PERFORM set_config('datestyle', CASE WHEN $1 % 600 = 0 THEN 'ISO' ELSE 'German' END, false);
        PERFORM set_config('extra_float_digits', CASE WHEN $1 % 600 = 0 THEN '1' ELSE '-3' END, false);
    END IF;
    RETURN 'x';
END$$;
CREATE FUNCTION fails_in_copy() RETURNS int LANGUAGE plpgsql AS $$BEGIN
    COPY (SELECT 1 / 0) TO '/nowhere/to/be/found';
EXCEPTION WHEN OTHERS THEN RETURN 0;
END$$;
CREATE FUNCTION while_planned(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
    $$BEGIN RETURN $1 + fails_in_copy(); END$$;
CREATE ROLE reader;
GRANT SELECT (id, s) ON t TO reader;
";

const SETTINGS: [&str; 8] = [
    "",
    "SET datestyle = German",
    "SET datestyle = 'SQL, DMY'; SET timezone = 'Asia/Kolkata'; SET intervalstyle = iso_8601",
    "SET extra_float_digits = 0",
    "SET extra_float_digits = -5; SET bytea_output = escape",
    "SET client_encoding = LATIN1",
    "SET client_encoding = SQL_ASCII",
    "SET datestyle = Postgres; SET intervalstyle = sql_standard",
];

/// Run with every setting.
const STATEMENTS: [&str; 7] = [
    "SELECT * FROM t",
    "SELECT s FROM t WHERE id > 0",
    "SELECT id + 1, s, d + 1 FROM t",
    "SELECT * FROM parts",
    "COPY t TO STDOUT",
    "COPY (SELECT f8, d, n, s FROM t WHERE id > 100) TO STDOUT",
    "SELECT id, s, changes(id), f8, d FROM t WHERE id > 0 AND s !~ '[é€]'",
];

/// Run with every setting, by index on one side and by a sequential scan on the other.
const BY_INDEX: [(&str, &str); 6] = [
    ("Index Scan", "SELECT * FROM keyed ORDER BY id"),
    (
        "Index Only Scan",
        "SELECT id, 'x' FROM keyed ORDER BY id LIMIT 300 OFFSET 7",
    ),
    (
        "Bitmap Heap Scan",
        "SELECT id, s, f8, d, n, by FROM keyed WHERE id < 200 OR id = 2001 ORDER BY id",
    ),
    (
        "LockRows",
        "SELECT id, s, tz, jb FROM keyed WHERE id BETWEEN 100 AND 600 ORDER BY id FOR UPDATE",
    ),
    (
        "Nested Loop",
        "SELECT a.id, a.s, b.n, b.f4 FROM keyed a JOIN keyed b ON b.id = a.id + 3 ORDER BY a.id",
    ),
    (
        "Index Scan",
        "SELECT id, s, changes(id), f8, d FROM keyed WHERE id > 0 AND s !~ '[é€]' ORDER BY id",
    ),
];

/// Makes the planner take the index, or not.
const WITH_INDEX: &str =
    "SET howdah.columnar_scan = off; SET howdah.vectorized = off; SET enable_seqscan = off;
    SET enable_hashjoin = off; SET enable_mergejoin = off";
const WITHOUT_INDEX: &str = "SET howdah.columnar_scan = off; SET howdah.vectorized = off;
    SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off";

/// Shows whether one of our receivers writes the rows that it returns.
const RECEIVERS: &str = "SELECT id, (SELECT count(*) FROM pg_backend_memory_contexts
    WHERE name = 'howdah rows for the client') > 0 FROM keyed WHERE id BETWEEN 1 AND 100";

/// Shows at its last row how much memory our receiver holds.
const BYTES_AT_LAST_TURN: &str = "SELECT id, CASE WHEN id = 20000 THEN (SELECT sum(total_bytes)
    FROM pg_backend_memory_contexts WHERE name = 'howdah rows for the client' AND id > 0) END
    FROM turns ORDER BY id";

/// Run once.
const OTHERS: [&str; 22] = [
    "SELECT FROM t",
    "SELECT id FROM t WHERE false",
    "SELECT * FROM t WHERE id % 97 = 0 LIMIT 20",
    "SELECT id, fails(id) FROM t",
    "COPY (SELECT id, fails(id) FROM t) TO STDOUT",
    "COPY t (s, id, d) TO STDOUT",
    "COPY t (id, id) TO STDOUT",
    "COPY t (nothing) TO STDOUT",
    "COPY t (gone) TO STDOUT",
    "COPY nothing TO STDOUT",
    "COPY parts TO STDOUT",
    "COPY t TO STDOUT (FORMAT csv, HEADER)",
    "COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE (id))",
    "COPY t TO STDOUT (FORMAT csv, FORCE_QUOTE (nothing))",
    "COPY t TO STDOUT (FORMAT binary)",
    // The planner runs a function with a COPY of its own, which fails.
    "COPY (SELECT id, s FROM t WHERE id > while_planned(0)) TO STDOUT (FORMAT csv)",
    "COPY (SELECT id, s FROM t WHERE id > while_planned(0)) TO STDOUT",
    "COPY t TO STDOUT (DELIMITER '|', NULL '-')",
    "COPY t TO STDOUT (ENCODING 'LATIN1')",
    "BEGIN; DECLARE c CURSOR FOR SELECT id, s FROM t; FETCH 10 FROM c; FETCH ALL FROM c; COMMIT",
    "SET ROLE reader; SELECT id, s FROM t; COPY t (id, s) TO STDOUT; RESET ROLE",
    "SET ROLE reader; COPY t TO STDOUT",
];

fn compare(what: &str, ours: &[Message], theirs: &[Message]) -> anyhow::Result<()> {
    let pairs = ours.iter().zip(theirs);
    if let Some((at, (one, other))) = pairs.enumerate().find(|(_, (one, other))| one != other) {
        let shown = |message: &Message| String::from_utf8_lossy(&message.1).into_owned();
        bail!(
            "{what}: message {at} is {}\nand from PostgreSQL {}",
            shown(one),
            shown(other)
        );
    }
    ensure!(
        ours.len() == theirs.len(),
        "{what}: another number of messages"
    );
    Ok(())
}

#[test]
fn the_client_receives_the_same_bytes() -> anyhow::Result<()> {
    let primary = Primary::start(
        "client-rows",
        &[
            ("autovacuum", "off"),
            ("howdah.compaction", "off"),
            ("max_parallel_workers_per_gather", "0"),
        ],
    )?;
    let mut session = primary.session()?;
    for statements in LOAD.split("\n\n") {
        session.batch_execute(statements)?;
    }
    let plan = query(&mut session, "EXPLAIN (COSTS OFF) SELECT * FROM t")?;
    ensure!(plan.contains("Custom Scan (HowdahColumnarScan)"), "{plan}");
    let sessions = |settings: &str| -> anyhow::Result<[Wire; 2]> {
        let mut both = [Wire::open(&primary)?, Wire::open(&primary)?];
        both[1].simple("SET howdah.columnar_scan = off; SET howdah.vectorized = off")?;
        for wire in &mut both {
            wire.simple(settings)?;
        }
        Ok(both)
    };
    let mut rows = 0;
    for (i, settings) in SETTINGS.into_iter().enumerate() {
        let others = if i == 0 { &OTHERS[..] } else { &[] };
        for sql in STATEMENTS.iter().chain(others) {
            let [mut ours, mut theirs] = sessions(settings)?;
            let (one, other) = (ours.simple(sql)?, theirs.simple(sql)?);
            compare(&format!("{settings}; {sql}"), &one, &other)?;
            rows += one
                .iter()
                .filter(|(kind, _)| matches!(kind, b'D' | b'd'))
                .count();
        }
    }
    ensure!(rows > 100_000, "{rows} rows");
    let [mut ours, mut theirs] = sessions("")?;
    for (limit, format) in [(0, 0), (100, 0), (1_777, 0), (0, 1), (333, 1)] {
        for sql in [
            "SELECT id, s, f8, i8 FROM t",
            "SELECT id FROM t LIMIT 2000",
            "SELECT * FROM t",
        ] {
            let one = ours.extended(sql, limit, &[format])?;
            let other = theirs.extended(sql, limit, &[format])?;
            compare(&format!("{sql}, {limit} at a time, {format}"), &one, &other)?;
        }
    }
    // Text and binary by turns; then a format that does not exist.
    for formats in [[0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 1, 0], [0, 1, 2, 0, 1, 0]] {
        for sql in [
            "SELECT id, s, n, d, tz, u FROM t",
            "SELECT by, n, ts, f4, jb, b FROM t",
        ] {
            let one = ours.extended(sql, 0, &formats)?;
            let other = theirs.extended(sql, 0, &formats)?;
            compare(&format!("{sql}, {formats:?}"), &one, &other)?;
        }
    }
    for settings in [
        "SET client_encoding = LATIN1",
        "SET client_encoding = SQL_ASCII",
    ] {
        let [mut ours, mut theirs] = sessions(settings)?;
        for sql in ["SELECT id, v, n, d FROM t", "SELECT s FROM t"] {
            let one = ours.extended(sql, 0, &[1])?;
            compare(
                &format!("{settings}; {sql}, binary"),
                &one,
                &theirs.extended(sql, 0, &[1])?,
            )?;
        }
    }
    // COPY of a table sends rows as they are stored, however cheap parallel workers are.
    let cheap = "SET max_parallel_workers_per_gather = 4; SET parallel_setup_cost = 0;
        SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0";
    let [mut ours, mut theirs] = sessions(cheap)?;
    let explained = "EXPLAIN (COSTS OFF) SELECT * FROM t";
    let plan = format!("{:?}", text_of(&ours.simple(explained)?));
    ensure!(plan.contains("Gather"), "{plan}");
    compare(
        "COPY with cheap workers",
        &ours.simple("COPY t TO STDOUT")?,
        &theirs.simple("COPY t TO STDOUT")?,
    )?;
    // The setting is as it was.
    let after = ours.simple(explained)?;
    ensure!(format!("{:?}", text_of(&after)) == plan, "the plan changed");
    Ok(())
}

#[test]
fn rows_by_index_are_the_same_bytes() -> anyhow::Result<()> {
    let settings = [
        ("autovacuum", "off"),
        ("howdah.compaction", "off"),
        ("max_parallel_workers_per_gather", "0"),
    ];
    let primary = Primary::start("client-rows-by-index", &settings)?;
    let mut session = primary.session()?;
    for statements in LOAD.split("\n\n") {
        session.batch_execute(statements)?;
    }
    let open = |with: &str, settings: &str| -> anyhow::Result<Wire> {
        let mut wire = Wire::open(&primary)?;
        wire.simple(with)?;
        wire.simple(settings)?;
        Ok(wire)
    };
    // The last byte of the first row, in text and in binary.
    let is_written_by_us = |wire: &mut Wire| -> anyhow::Result<bool> {
        let mut told = Vec::new();
        for rows in [wire.simple(RECEIVERS)?, wire.extended(RECEIVERS, 0, &[1])?] {
            let row = rows.into_iter().find(|(kind, _)| *kind == b'D');
            told.extend(row.context("a row")?.1.pop());
        }
        ensure!(matches!(told[..], [b't', 1] | [b'f', 0]), "{told:?}");
        Ok(told[0] == b't')
    };
    ensure!(is_written_by_us(&mut open(WITH_INDEX, "")?)?);
    ensure!(!is_written_by_us(&mut open(WITHOUT_INDEX, "")?)?);
    let mut rows = 0;
    for settings in SETTINGS {
        for (node, sql) in BY_INDEX {
            let (mut ours, mut theirs) =
                (open(WITH_INDEX, settings)?, open(WITHOUT_INDEX, settings)?);
            let explained = format!("EXPLAIN (COSTS OFF) {sql}");
            let plan = text_of(&ours.simple(&explained)?);
            ensure!(plan.contains(node), "{sql}: {plan}");
            let plan = text_of(&theirs.simple(&explained)?);
            ensure!(plan.contains("Seq Scan on keyed"), "{sql}: {plan}");
            let (one, other) = (ours.simple(sql)?, theirs.simple(sql)?);
            rows += one.len();
            compare(&format!("{settings}; {sql}"), &one, &other)?;
        }
    }
    ensure!(rows > 50_000, "{rows} messages");
    let sql = "SELECT * FROM keyed ORDER BY id";
    for (limit, format) in [(0, 0), (100, 0), (1_777, 0), (0, 1)] {
        let (mut ours, mut theirs) = (open(WITH_INDEX, "")?, open(WITHOUT_INDEX, "")?);
        let one = ours.extended(sql, limit, &[format])?;
        let other = theirs.extended(sql, limit, &[format])?;
        compare(&format!("{sql}, {limit} at a time, {format}"), &one, &other)?;
    }
    for sql in [
        "SELECT id, s FROM turns ORDER BY id",
        "SELECT id, s FROM keyed WHERE ctid = ANY (ARRAY(SELECT ctid FROM keyed WHERE id < 90 ORDER BY id))",
    ] {
        let (mut ours, mut theirs) = (open(WITH_INDEX, "")?, open(WITHOUT_INDEX, "")?);
        compare(sql, &ours.simple(sql)?, &theirs.simple(sql)?)?;
    }
    // Rows that come from two partitions by turns leave nothing behind.
    let mut turns = open(WITH_INDEX, "")?;
    let plan = text_of(&turns.simple(&format!("EXPLAIN (COSTS OFF) {BYTES_AT_LAST_TURN}"))?);
    ensure!(plan.contains("Merge Append"), "{plan}");
    let rows = turns.simple(BYTES_AT_LAST_TURN)?;
    let last = rows
        .iter()
        .rfind(|(kind, _)| *kind == b'D')
        .context("rows")?;
    let told = String::from_utf8_lossy(&last.1[14..]).into_owned();
    let bytes: u64 = told
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .parse()?;
    ensure!(
        (1..65_536).contains(&bytes),
        "{bytes} bytes after 20,000 turns"
    );
    let copy = "COPY (SELECT id, s, n, d, tz FROM keyed ORDER BY id) TO STDOUT";
    let (mut ours, mut theirs) = (open(WITH_INDEX, "")?, open(WITHOUT_INDEX, "")?);
    compare(copy, &ours.simple(copy)?, &theirs.simple(copy)?)
}

/// All messages as text.
fn text_of(messages: &[Message]) -> String {
    let bodies = messages.iter().map(|(_, body)| body.as_slice());
    String::from_utf8_lossy(&bodies.collect::<Vec<_>>().concat()).into_owned()
}

#[test]
fn files_have_the_lines_that_the_client_receives() -> anyhow::Result<()> {
    let primary = Primary::start("client-rows-files", &[("howdah.compaction", "off")])?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE TABLE t (id int, s text, n numeric) USING howdah;
         INSERT INTO t SELECT i, E'a\\t' || md5(i::text), i / 8.0 FROM generate_series(1, 20000) i",
    )?;
    session.batch_execute("CALL howdah.compact('t')")?;
    session.batch_execute("VACUUM ANALYZE t")?;
    let file = primary.data.join("copied");
    let name = file.display();
    let rows = session.execute(&format!("COPY t TO '{name}'"), &[])?;
    ensure!(rows == 20_000, "{rows} rows");
    let mut written = String::new();
    (session.copy_out("COPY t TO STDOUT")?).read_to_string(&mut written)?;
    let from_file = query(&mut session, &format!("SELECT pg_read_file('{name}')"))?;
    ensure!(
        from_file.trim_end() == written.trim_end(),
        "the file differs"
    );
    session.batch_execute(&format!(
        "CREATE TABLE back (LIKE t); COPY back FROM '{name}'"
    ))?;
    let missing = "SELECT count(*) FROM (TABLE t EXCEPT TABLE back) x";
    ensure!(query(&mut session, missing)?.trim() == "0", "rows differ");
    let refused = session.batch_execute("COPY t TO '/dev/full'");
    let refused = refused.err().context("a full device takes no rows")?;
    let told = refused.as_db_error().context("an error of the server")?;
    ensure!(told.message() == "could not write to COPY file: No space left on device");
    Ok(())
}
