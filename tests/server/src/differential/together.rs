//! Scripts of two to four sessions that access the same few rows.
//!
//! Every statement reaches its rows by the primary key's index, so that both worlds lock them in
//! the same order.

use super::Dice;
use super::script::{Script, Step};

const ROW_COUNT: u64 = 10;
/// Rows of a wide scene: a command that changes them all locks their row group as a whole.
const WIDE_ROW_COUNT: u64 = 420;
const STEP_COUNT: usize = 30;

struct Scene {
    dice: Dice,
    session_count: usize,
    is_open: Vec<bool>,
    prepared: Vec<String>,
    has_child: bool,
    has_parent: bool,
    has_ranges: bool,
    is_wide: bool,
    serial: u64,
    steps: Vec<Step>,
}

pub(super) fn script(seed: u64) -> Script {
    let mut dice = Dice::new(seed);
    let session_count = 2 + dice.below(3);
    let mut scene = Scene {
        session_count,
        is_open: vec![false; session_count],
        prepared: Vec::new(),
        has_child: dice.one_in(3),
        has_parent: dice.one_in(4),
        has_ranges: dice.one_in(4),
        is_wide: dice.one_in(3),
        serial: 0,
        steps: Vec::new(),
        dice,
    };
    let setup = scene.setup();
    if !scene.dice.one_in(4) {
        scene.steps.push(Step::Compact("w.t".into()));
        if scene.has_child {
            scene.steps.push(Step::Compact("w.f".into()));
        }
    }
    while scene.steps.len() < STEP_COUNT {
        scene.step();
    }
    let force_cold = if scene.dice.one_in(3) { "on" } else { "off" };
    Script {
        session_count,
        settings: ["seqscan", "bitmapscan", "sort", "hashjoin", "mergejoin"]
            .map(|plan| format!("SET enable_{plan} = off"))
            .to_vec(),
        howdah_settings: vec![
            "SET howdah.columnar_scan = off".into(),
            format!("SET howdah.debug_force_cold = {force_cold}"),
        ],
        setup,
        steps: scene.steps,
    }
}

impl Scene {
    fn setup(&mut self) -> Vec<String> {
        let mut setup = Vec::new();
        let k = if self.has_parent {
            setup.push(
                "CREATE TABLE p (pid int PRIMARY KEY); INSERT INTO p SELECT generate_series(0, 4)"
                    .into(),
            );
            "k int REFERENCES p ON DELETE SET NULL ON UPDATE CASCADE"
        } else {
            *self
                .dice
                .pick(&["k int", "k int", "k int UNIQUE", "k int UNIQUE DEFERRABLE"])
        };
        let range = if self.dice.one_in(5) {
            " PARTITION BY RANGE (id)"
        } else {
            ""
        };
        let unique_elsewhere = !range.is_empty() && k.contains("UNIQUE");
        let k = if unique_elsewhere { "k int" } else { k };
        setup.push(format!(
            "CREATE TABLE t (id bigint PRIMARY KEY, {k}, word text){range}"
        ));
        if !range.is_empty() {
            setup.push(
                "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (MINVALUE) TO (6); \
                 CREATE TABLE t2 PARTITION OF t DEFAULT"
                    .into(),
            );
        }
        let row_count = if self.is_wide {
            WIDE_ROW_COUNT
        } else {
            ROW_COUNT
        };
        setup.push(format!(
            "INSERT INTO t SELECT i, i{}, 'start' FROM generate_series(1, {row_count}) i",
            if self.has_parent { " % 5" } else { "" }
        ));
        if self.has_parent {
            // This makes the parent's referential actions reach its children in the same order.
            setup.push("CREATE INDEX ON t (k, id)".into());
        }
        if self.has_child {
            let action = *self
                .dice
                .pick(&["NO ACTION", "CASCADE", "SET NULL", "RESTRICT"]);
            setup.push(format!(
                "CREATE TABLE f (fid int PRIMARY KEY, ref bigint REFERENCES t ON DELETE {action} ON UPDATE {action}); \
                 CREATE INDEX ON f (ref, fid); INSERT INTO f VALUES (1, 1), (2, 2)"
            ));
        }
        if self.has_ranges {
            let constraint = *self.dice.pick(&[
                "EXCLUDE USING gist (room WITH =, during WITH &&)",
                "EXCLUDE USING gist (room WITH =, during WITH &&) DEFERRABLE INITIALLY DEFERRED",
                "PRIMARY KEY (room, during WITHOUT OVERLAPS)",
            ]);
            setup.push(format!(
                "CREATE TABLE e (room int, during int4range, note text, {constraint}); \
                 INSERT INTO e SELECT i % 3, int4range(i * 4, i * 4 + 3), 'start' FROM generate_series(1, 9) i"
            ));
        }
        if self.dice.one_in(5) {
            setup.push(
                "CREATE TABLE log (what text); \
                 CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 INSERT INTO log VALUES (concat_ws(' ', TG_WHEN, TG_OP, OLD.id, OLD.word, NEW.id, NEW.word)); \
                 IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$"
                    .into(),
            );
            let when = *self.dice.pick(&["BEFORE", "AFTER"]);
            setup.push(format!(
                "CREATE TRIGGER note {when} UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note()"
            ));
        }
        setup
    }

    fn id(&mut self) -> u64 {
        // A few of the rows, so that sessions conflict.
        1 + self.dice.roll() % 6
    }

    fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn step(&mut self) {
        if self.dice.one_in(7) {
            let step = match self.dice.below(9) {
                0 => Step::Maintain("VACUUM w.t".into()),
                1 => Step::Maintain("VACUUM (FREEZE, INDEX_CLEANUP on) w.t".into()),
                2 => match self.dice.below(3) {
                    0 => Step::Maintain("VACUUM (FULL) w.t".into()),
                    1 => Step::Maintain("CLUSTER w.t USING t_pkey".into()),
                    _ => Step::Maintain("REINDEX TABLE CONCURRENTLY w.t".into()),
                },
                3 if self.has_ranges => Step::Compact("w.e".into()),
                4 if self.has_child => Step::Compact("w.f".into()),
                _ => Step::Compact("w.t".into()),
            };
            self.steps.push(step);
            return;
        }
        let session = self.dice.below(self.session_count);
        let text = if !self.is_open[session] && !self.dice.one_in(5) {
            self.is_open[session] = true;
            let isolation = *self.dice.pick(&[
                "READ COMMITTED",
                "READ COMMITTED",
                "READ COMMITTED",
                "REPEATABLE READ",
                "SERIALIZABLE",
            ]);
            format!("BEGIN ISOLATION LEVEL {isolation}")
        } else if self.is_open[session] && self.dice.one_in(6) {
            let end = self.end(session);
            self.is_open[session] = end.ends_with("CHAIN");
            end
        } else {
            self.statement()
        };
        self.steps.push(Step::Sql { session, text });
    }

    fn end(&mut self, session: usize) -> String {
        match self.dice.below(6) {
            0 => "ROLLBACK".into(),
            1 => {
                let gid = format!("{{w}}_{session}_{}", self.serial());
                self.prepared.push(gid.clone());
                format!("PREPARE TRANSACTION '{gid}'")
            }
            2 => (*self.dice.pick(&["COMMIT AND CHAIN", "ROLLBACK AND CHAIN"])).into(),
            _ => "COMMIT".into(),
        }
    }

    fn statement(&mut self) -> String {
        let (id, other) = (self.id(), self.id());
        let (low, high) = (id.min(other), id.max(other));
        let serial = self.serial();
        let fresh = 1000 * serial;
        if self.is_wide && self.dice.one_in(5) {
            return self.many_rows(serial, fresh);
        }
        match self.dice.below(46) {
            0..=5 => self.lock(id, low, high),
            6..=8 => format!("UPDATE t SET word = word || '{serial}' WHERE id = {id} RETURNING *"),
            9..=10 if !self.has_parent => {
                format!("UPDATE t SET k = k + {fresh} WHERE id = {id} RETURNING old.k, new.k")
            }
            11 => format!("UPDATE t SET id = id + {fresh} WHERE id = {id} RETURNING id"),
            12 => format!(
                "UPDATE t SET word = 'range {serial}' WHERE id BETWEEN {low} AND {high} RETURNING id"
            ),
            13 => format!(
                "UPDATE t SET word = 'checked' WHERE id = {id} AND word = 'start' RETURNING *"
            ),
            14..=15 => format!("DELETE FROM t WHERE id = {id} RETURNING *"),
            16 => format!("INSERT INTO t VALUES ({id}, NULL, 'new {serial}')"),
            17 => format!(
                "INSERT INTO t VALUES ({id}, NULL, 'upsert') ON CONFLICT (id) DO UPDATE SET word = t.word || 'u{serial}' RETURNING old.word, new.word"
            ),
            18 => format!("INSERT INTO t VALUES ({id}, NULL, 'maybe') ON CONFLICT DO NOTHING"),
            19..=20 => format!(
                "MERGE INTO t USING (VALUES ({id}::bigint)) s (sid) ON t.id = s.sid \
                 WHEN MATCHED AND t.word = 'start' THEN UPDATE SET word = 'merged' \
                 WHEN MATCHED AND t.id % 2 = 0 THEN DELETE \
                 WHEN MATCHED THEN UPDATE SET word = t.word || 'm' \
                 WHEN NOT MATCHED THEN INSERT VALUES (s.sid, NULL, 'by merge') \
                 RETURNING merge_action(), id, t.word"
            ),
            21 | 22 if self.has_child => match self.dice.below(3) {
                0 => format!("INSERT INTO f VALUES ({}, {id})", 10 + serial),
                1 => format!("UPDATE f SET ref = {id} WHERE fid = {}", 1 + serial % 2),
                _ => format!("DELETE FROM f WHERE fid = {}", 1 + serial % 2),
            },
            23 if self.has_parent => match self.dice.below(3) {
                0 => format!("DELETE FROM p WHERE pid = {}", serial % 5),
                1 => format!(
                    "UPDATE p SET pid = {} WHERE pid = {}",
                    10 + serial,
                    serial % 5
                ),
                _ => format!("UPDATE t SET k = {} WHERE id = {id}", serial % 5),
            },
            24 | 30 => (*self.dice.pick(&["SAVEPOINT one", "SAVEPOINT two"])).into(),
            25 | 31 => (*self.dice.pick(&[
                "ROLLBACK TO one",
                "RELEASE one",
                "ROLLBACK TO two",
                "RELEASE two",
            ]))
            .into(),
            32 => format!(
                "MERGE INTO t USING (SELECT generate_series({low}, {high})::bigint AS sid) s ON t.id = s.sid \
                 WHEN MATCHED AND t.word = 'start' THEN UPDATE SET id = t.id + {fresh} \
                 WHEN MATCHED AND t.word LIKE 'up%' THEN DO NOTHING \
                 WHEN MATCHED THEN DELETE \
                 RETURNING merge_action(), old.id, new.id"
            ),
            33 | 34 => {
                let policy = *self
                    .dice
                    .pick(&["", " NOWAIT", " SKIP LOCKED", " SKIP LOCKED"]);
                let change = *self.dice.pick(&[
                    "DELETE FROM t",
                    "UPDATE t SET word = 'taken'",
                    "UPDATE t SET word = word || 'q'",
                ]);
                format!(
                    "{change} WHERE id = ANY (ARRAY(SELECT id FROM t WHERE id >= {low} ORDER BY id LIMIT 2 FOR UPDATE{policy})) RETURNING id"
                )
            }
            35 => (*self.dice.pick(&[
                "SET CONSTRAINTS ALL DEFERRED",
                "SET CONSTRAINTS ALL IMMEDIATE",
            ]))
            .into(),
            36 => format!(
                "DO $$ BEGIN UPDATE t SET word = 'tried' WHERE id = {id}; PERFORM 1 / ({serial} % 2); \
                 EXCEPTION WHEN division_by_zero THEN UPDATE t SET word = 'caught' WHERE id = {other}; END $$"
            ),
            37 => format!(
                "DECLARE c{serial} CURSOR FOR SELECT id, word FROM t WHERE id BETWEEN {low} AND {high} ORDER BY id FOR UPDATE; FETCH FROM c{serial}; UPDATE t SET word = 'current' WHERE CURRENT OF c{serial} RETURNING id; FETCH FROM c{serial}"
            ),
            38 => match self.dice.below(7) {
                0 => format!("ALTER TABLE t ADD COLUMN c{serial} int DEFAULT {serial}"),
                1 => "TRUNCATE t CASCADE".into(),
                2 => format!("CREATE INDEX i{serial} ON t (word)"),
                3 => "LOCK TABLE t IN SHARE MODE".into(),
                4 => "LOCK TABLE t IN ACCESS EXCLUSIVE MODE NOWAIT".into(),
                5 => "ALTER TABLE t ALTER COLUMN word TYPE varchar(90)".into(),
                _ => "LOCK TABLE t IN SHARE ROW EXCLUSIVE MODE NOWAIT".into(),
            },
            39 | 40 if self.has_ranges => {
                let (room, at) = (serial % 3, (serial * 5) % 40);
                match self.dice.below(5) {
                    0 | 1 => format!(
                        "INSERT INTO e VALUES ({room}, int4range({at}, {}), 'new {serial}')",
                        at + 4
                    ),
                    2 => format!(
                        "INSERT INTO e VALUES ({room}, int4range({at}, {}), 'maybe') ON CONFLICT DO NOTHING",
                        at + 4
                    ),
                    3 => format!(
                        "DELETE FROM e WHERE room = {room} AND during @> {at} RETURNING note"
                    ),
                    _ => format!(
                        "UPDATE e SET note = note || '{serial}' WHERE room = {room} AND during @> {at} RETURNING note"
                    ),
                }
            }
            41 => format!(
                "WITH a AS (UPDATE t SET word = 'first' WHERE id = {id} RETURNING id), b AS (DELETE FROM t WHERE id = {other} AND id <> {id} RETURNING id) SELECT (SELECT id FROM a), (SELECT id FROM b)"
            ),
            42 => {
                format!("UPDATE t SET k = k, id = {other} WHERE id = {id} RETURNING old.id, new.id")
            }
            43 => format!("SELECT count(*) FROM t WHERE k > {serial}"),
            26 if !self.prepared.is_empty() => {
                let at = self.dice.below(self.prepared.len());
                let gid = self.prepared.swap_remove(at);
                let end = *self.dice.pick(&["COMMIT", "COMMIT", "ROLLBACK"]);
                format!("{end} PREPARED '{gid}'")
            }
            27 => format!(
                "WITH gone AS (DELETE FROM t WHERE id = {id} RETURNING *) INSERT INTO t SELECT id + {fresh}, NULL, 'moved' FROM gone RETURNING id"
            ),
            // An old snapshot may see a deleted row and the session's own row with the same key.
            _ => "SELECT * FROM t WHERE id > 0 ORDER BY id, word, k".into(),
        }
    }

    /// Changes or locks every row of the group, so that all rows that other sessions want of it are
    /// locked on heap, too; sometimes only a part.
    fn many_rows(&mut self, serial: u64, fresh: u64) -> String {
        let rows = match self.dice.below(5) {
            0 => format!("id BETWEEN 4 AND {WIDE_ROW_COUNT}"),
            1 => format!("id BETWEEN 1 AND {WIDE_ROW_COUNT} AND word = 'start'"),
            _ => format!("id BETWEEN 1 AND {WIDE_ROW_COUNT}"),
        };
        let k = if self.has_parent {
            "k = k".to_owned()
        } else {
            format!("k = k + {fresh}")
        };
        let change = match self.dice.below(8) {
            0 | 1 => format!("UPDATE t SET word = word || 'm{serial}' WHERE {rows} RETURNING id"),
            2 => format!("UPDATE t SET id = id + {fresh} WHERE {rows} RETURNING id"),
            3 => format!("UPDATE t SET {k} WHERE {rows} RETURNING id"),
            4 => format!("DELETE FROM t WHERE {rows} RETURNING id"),
            5 => format!("DELETE FROM t WHERE {rows} AND id % 3 = 0 RETURNING id"),
            6 => {
                return format!(
                    "MERGE INTO t USING (SELECT generate_series(1, {WIDE_ROW_COUNT})::bigint AS sid) s ON t.id = s.sid \
                 WHEN MATCHED AND s.sid % 5 = 0 THEN DELETE \
                 WHEN MATCHED THEN UPDATE SET word = 'many merged' \
                 WHEN NOT MATCHED THEN INSERT VALUES (s.sid, NULL, 'by merge')"
                );
            }
            _ => {
                let strength = *self
                    .dice
                    .pick(&["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"]);
                return format!(
                    "SELECT count(*), sum(id) FROM (SELECT id FROM t WHERE {rows} ORDER BY id FOR {strength}) locked"
                );
            }
        };
        format!("WITH changed AS ({change}) SELECT count(*), sum(id) FROM changed")
    }

    fn lock(&mut self, id: u64, low: u64, high: u64) -> String {
        let strength = *self
            .dice
            .pick(&["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"]);
        let policy = *self.dice.pick(&["", "", " NOWAIT", " SKIP LOCKED"]);
        if self.dice.one_in(3) {
            format!(
                "SELECT id, word FROM t WHERE id BETWEEN {low} AND {high} ORDER BY id FOR {strength}{policy}"
            )
        } else {
            format!("SELECT id, word FROM t WHERE id = {id} FOR {strength}{policy}")
        }
    }
}
