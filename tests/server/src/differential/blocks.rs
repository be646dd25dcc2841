//! Statements that do many things at once: hundreds of rows in one command, blocks with
//! subtransactions, queues, loops over rows that change meanwhile.

use super::author::Author;
use super::schema::{Key, Partitions};

impl Author {
    /// Commands that change or lock hundreds of rows of one group; some are rolled back.
    pub fn many_rows(&mut self) -> Vec<String> {
        let (wide, also) = (self.wide_predicate(), self.wide_predicate());
        let (assignments, again) = (self.assignments(), self.assignments());
        let update = format!("UPDATE t SET {assignments} WHERE {wide}");
        let second = format!("UPDATE t SET {again} WHERE {also}");
        let delete = format!("DELETE FROM t WHERE {also}");
        let look = "SELECT count(*), sum(id), sum(hashtextextended(t::text, 0)) FROM t".to_owned();
        match self.dice.below(9) {
            0 => vec![update, look],
            1 => vec![format!("DELETE FROM t WHERE {wide}"), look],
            2 => vec![update, second, look],
            3 => vec![
                "SAVEPOINT many".to_owned(),
                update,
                look.clone(),
                "ROLLBACK TO many".to_owned(),
                second,
                look,
            ],
            4 => vec![
                "SAVEPOINT many".to_owned(),
                delete,
                "ROLLBACK TO many".to_owned(),
                update,
                look,
            ],
            5 => vec![
                format!(
                    "WITH gone AS (DELETE FROM t WHERE {wide} AND id % 5 = 0 RETURNING id), \
                     changed AS (UPDATE t SET {assignments} WHERE {wide} AND id % 5 = 1 RETURNING id) \
                     SELECT (SELECT count(*) FROM gone), (SELECT sum(id) FROM changed), (SELECT count(*) FROM t)"
                ),
                look,
            ],
            6 => vec![format!(
                "SELECT count(*), sum(id) FROM (SELECT id FROM t WHERE {wide} {}) locked",
                self.locking()
            )],
            7 => {
                let fresh = self.fresh();
                vec![
                    format!(
                        "MERGE INTO t USING (SELECT i AS sid FROM generate_series(1, 900) i) s ON t.id = s.sid \
                         WHEN MATCHED AND s.sid % 4 = 0 THEN DELETE \
                         WHEN MATCHED AND s.sid % 4 = 1 THEN UPDATE SET id = t.id + {fresh} \
                         WHEN MATCHED AND s.sid % 4 = 2 THEN UPDATE SET word = 'merged'"
                    ),
                    look,
                ]
            }
            _ => {
                let (names, values) = (self.names(), self.values("i"));
                let target = match (self.schema.key, self.schema.partitions) {
                    (Key::None | Key::Deferred, _) => "ON CONFLICT DO NOTHING",
                    (_, Partitions::List) => {
                        "ON CONFLICT (id, part) DO UPDATE SET word = 'many again'"
                    }
                    _ => "ON CONFLICT (id) DO UPDATE SET word = 'many again'",
                };
                vec![
                    format!(
                        "INSERT INTO t ({names}) SELECT {values} FROM generate_series(1, 400) i {target}"
                    ),
                    look,
                ]
            }
        }
    }

    /// A block whose subtransactions fail in between, by themselves or on purpose.
    pub fn block(&mut self) -> String {
        let (a, b) = (self.some_id(), self.some_id());
        let change = match self.dice.below(4) {
            0 => format!("UPDATE t SET id = {a} + j WHERE id = {b} + j"),
            1 => format!("DELETE FROM t WHERE id BETWEEN {a} AND {a} + j"),
            2 => format!("UPDATE t SET word = word || j WHERE id BETWEEN {a} AND {a} + 3 * j"),
            _ => {
                let (assignments, predicate) = (self.assignments(), self.predicate());
                format!("UPDATE t SET {assignments} WHERE {predicate}")
            }
        };
        let fails = *self.dice.pick(&["j % 2 = 0", "j = 3", "false", "true"]);
        format!(
            "DO $$ BEGIN FOR j IN 1..4 LOOP BEGIN {change}; \
             IF {fails} THEN PERFORM 1 / (j - j); END IF; \
             EXCEPTION WHEN division_by_zero OR integrity_constraint_violation THEN \
             UPDATE t SET word = 'caught' WHERE id = {b}; END; END LOOP; END $$"
        )
    }

    /// Takes rows off a queue.
    pub fn queue(&mut self) -> String {
        let (predicate, assignments) = (self.predicate(), self.assignments());
        let locking = self.locking();
        let limit = 1 + self.dice.below(4);
        let taken = format!(
            "SELECT id FROM t WHERE {predicate} ORDER BY id, t::text LIMIT {limit} {locking}"
        );
        match self.dice.below(3) {
            0 => format!("DELETE FROM t WHERE id = ANY (ARRAY({taken})) RETURNING id, word"),
            1 => format!("UPDATE t SET {assignments} WHERE id = ANY (ARRAY({taken})) RETURNING id"),
            _ => format!(
                "WITH taken AS MATERIALIZED ({taken}) UPDATE t SET word = 'taken' FROM taken WHERE t.id = taken.id RETURNING t.id"
            ),
        }
    }

    /// Locks rows of only one of the joined tables.
    pub fn lock_joined(&mut self) -> String {
        let (predicate, a) = (self.predicate(), self.some_id());
        let strength = *self
            .dice
            .pick(&["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"]);
        format!(
            "SELECT x.id, x.word, count FROM (SELECT * FROM t WHERE {predicate}) x \
             JOIN (SELECT id AS other, count(*) FROM t WHERE id >= {a} GROUP BY id) y ON x.id = y.other \
             FOR {strength} OF x"
        )
    }

    /// A loop over a cursor, in which rows are changed that the cursor has not returned yet.
    pub fn loop_over_rows(&mut self) -> String {
        let (predicate, fresh) = (self.predicate(), self.fresh());
        let locking = *self.dice.pick(&["", " FOR UPDATE", " FOR NO KEY UPDATE"]);
        let change = match self.dice.below(4) {
            0 => "DELETE FROM t WHERE id = one.id + 1".to_owned(),
            1 => "UPDATE t SET word = 'loop ' || one.k WHERE id IN (one.id, one.id + 2)".to_owned(),
            2 => format!("UPDATE t SET id = id + {fresh} WHERE id = one.id"),
            _ if locking.is_empty() => "DELETE FROM t WHERE id = one.id".to_owned(),
            _ => "UPDATE t SET word = word || '.' WHERE CURRENT OF some".to_owned(),
        };
        format!(
            "DO $$ DECLARE one record; some CURSOR FOR SELECT id, k FROM t WHERE {predicate} ORDER BY id, t::text{locking}; \
             BEGIN FOR one IN some LOOP {change}; END LOOP; END $$"
        )
    }

    /// COPY in, from a program that generates the rows.
    pub fn copy(&mut self) -> String {
        let count = *self.dice.pick(&[3, 60, 700]);
        let first = self.next_id;
        self.next_id += count;
        let freeze = if self.dice.one_in(6) { " (FREEZE)" } else { "" };
        let onto = *self.dice.pick(&["t (id)", "archive (id)"]);
        format!(
            "COPY {onto} FROM PROGRAM 'seq {first} {}'{freeze}",
            first + count - 1
        )
    }

    /// When deferred constraints are checked.
    pub fn deferral(&mut self) -> String {
        let when = *self.dice.pick(&["DEFERRED", "IMMEDIATE"]);
        format!("SET CONSTRAINTS ALL {when}")
    }
}
