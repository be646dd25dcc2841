//! Scripts of two to four sessions that want the same few rows.
//!
//! Every statement reaches its rows by the primary key's index, so that both worlds lock them in
//! the same order.

use super::Dice;
use super::script::{Script, Step};

const ROW_COUNT: u64 = 10;
const STEP_COUNT: usize = 30;

struct Scene {
    dice: Dice,
    session_count: usize,
    is_open: Vec<bool>,
    prepared: Vec<String>,
    has_child: bool,
    has_parent: bool,
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
        setup.push(format!(
            "INSERT INTO t SELECT i, i{}, 'start' FROM generate_series(1, {ROW_COUNT}) i",
            if self.has_parent { " % 5" } else { "" }
        ));
        if self.has_child {
            let action = *self
                .dice
                .pick(&["NO ACTION", "CASCADE", "SET NULL", "RESTRICT"]);
            setup.push(format!(
                "CREATE TABLE f (fid int PRIMARY KEY, ref bigint REFERENCES t ON DELETE {action} ON UPDATE {action}); \
                 CREATE INDEX ON f (ref); INSERT INTO f VALUES (1, 1), (2, 2)"
            ));
        }
        setup
    }

    fn id(&mut self) -> u64 {
        // A few of the rows, so that sessions meet.
        1 + self.dice.roll() % 6
    }

    fn serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn step(&mut self) {
        if self.dice.one_in(7) {
            let step = match self.dice.below(6) {
                0 => Step::Maintain("VACUUM w.t".into()),
                1 if self.has_child => Step::Compact("w.f".into()),
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
                "REPEATABLE READ",
                "SERIALIZABLE",
            ]);
            format!("BEGIN ISOLATION LEVEL {isolation}")
        } else if self.is_open[session] && self.dice.one_in(6) {
            self.is_open[session] = false;
            self.end(session)
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
            _ => "COMMIT".into(),
        }
    }

    fn statement(&mut self) -> String {
        let (id, other) = (self.id(), self.id());
        let (low, high) = (id.min(other), id.max(other));
        let serial = self.serial();
        let fresh = 1000 * serial;
        match self.dice.below(30) {
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
            24 => "SAVEPOINT one".into(),
            25 => (*self.dice.pick(&["ROLLBACK TO one", "RELEASE one"])).into(),
            26 if !self.prepared.is_empty() => {
                let at = self.dice.below(self.prepared.len());
                let gid = self.prepared.swap_remove(at);
                let end = *self.dice.pick(&["COMMIT", "COMMIT", "ROLLBACK"]);
                format!("{end} PREPARED '{gid}'")
            }
            27 => format!(
                "WITH gone AS (DELETE FROM t WHERE id = {id} RETURNING *) INSERT INTO t SELECT id + {fresh}, NULL, 'moved' FROM gone RETURNING id"
            ),
            _ => "SELECT * FROM t WHERE id > 0 ORDER BY id".into(),
        }
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
