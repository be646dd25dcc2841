//! Statements that read and change rows. Each function returns one step or several that belong
//! together.

use super::author::Author;
use super::schema::{Key, PARENT_COUNT, Partitions};

type Steps = Vec<String>;

fn one(text: String) -> Steps {
    vec![text]
}

impl Author {
    /// Any statement or short run of statements on rows.
    pub fn statement(&mut self) -> Steps {
        match self.dice.below(58) {
            0..=4 => one(self.insert()),
            5..=7 => one(self.on_conflict()),
            8..=11 => one(self.update()),
            12..=14 => one(self.delete()),
            15..=18 => one(self.merge()),
            19..=22 => one(self.lock_rows()),
            23..=24 => self.cursor(),
            25..=27 => one(self.writable_cte()),
            28 => one(self.by_tid()),
            29..=30 if self.schema.has_views => one(self.through_view()),
            31..=33 if self.schema.has_child => one(self.child()),
            34..=35 if self.schema.has_parent => one(self.parent()),
            36..=38 if self.schema.has_ranges => one(self.ranges()),
            39..=41 => self.read(),
            42..=44 => one(self.block()),
            45..=46 => one(self.queue()),
            47 => one(self.loop_over_rows()),
            48 => one(self.copy()),
            49 => one(self.deferral()),
            50..=52 if self.schema.is_wide => self.many_rows(),
            53 => one(self.lock_joined()),
            _ => one(self.change_one()),
        }
    }

    fn insert(&mut self) -> String {
        let row_count = match self.dice.below(4) {
            0 => 1,
            1 => 60 + self.dice.roll() % 300,
            _ => 1 + self.dice.roll() % 30,
        };
        let (rows, names, returning) = (self.rows(row_count), self.names(), self.returning());
        format!("INSERT INTO t ({names}) {rows}{returning}")
    }

    fn on_conflict(&mut self) -> String {
        let id = self.some_id();
        let last = id + self.dice.roll() % 6;
        let (names, values) = (self.names(), self.values("i"));
        self.next_id = self.next_id.max(last + 1);
        let target = match (self.schema.key, self.schema.partitions) {
            (Key::None, _) => "",
            (_, Partitions::List) => "(id, part)",
            _ => "(id)",
        };
        let action = match self.dice.below(4) {
            _ if target.is_empty() => "DO NOTHING".to_owned(),
            0 => "DO NOTHING".to_owned(),
            1 => "DO UPDATE SET word = excluded.word || t.word WHERE t.id % 2 = 0".to_owned(),
            2 => format!("DO UPDATE SET id = excluded.id + {}", self.fresh()),
            _ => "DO UPDATE SET k = excluded.k, word = 'again'".to_owned(),
        };
        let returning = self.returning();
        format!(
            "INSERT INTO t ({names}) SELECT {values} FROM generate_series({id}, {last}) i \
             ON CONFLICT {target} {action}{returning}"
        )
    }

    fn update(&mut self) -> String {
        let (assignments, predicate, returning) =
            (self.assignments(), self.predicate(), self.returning());
        if self.dice.one_in(5) {
            let id = self.some_id();
            // `id` alone would be ambiguous.
            return format!(
                "UPDATE t SET word = s.note FROM (SELECT i AS sid, 'from ' || i AS note \
                 FROM generate_series({id}, {}) i) s WHERE t.id = s.sid",
                id + 20
            );
        }
        format!("UPDATE t SET {assignments} WHERE {predicate}{returning}")
    }

    /// One row gets a key that another row may have.
    fn change_one(&mut self) -> String {
        let (a, b) = (self.some_id(), self.some_id());
        let returning = self.returning();
        format!("UPDATE t SET id = {a} WHERE id = {b}{returning}")
    }

    fn delete(&mut self) -> String {
        let (predicate, returning) = (self.predicate(), self.returning());
        if self.dice.one_in(5) {
            let id = self.some_id();
            return format!(
                "DELETE FROM t USING generate_series({id}, {}) s WHERE t.id = s",
                id + 10
            );
        }
        format!("DELETE FROM t WHERE {predicate}{returning}")
    }

    fn merge(&mut self) -> String {
        let id = self.some_id();
        let last = id + 1 + self.dice.roll() % 20;
        self.next_id = self.next_id.max(last + 1);
        let fresh = self.fresh();
        let mut clauses = Vec::new();
        if self.dice.one_in(2) {
            clauses.push("WHEN MATCHED AND s.sid % 3 = 0 THEN DELETE".to_owned());
        }
        clauses.push(match self.dice.below(3) {
            0 => "WHEN MATCHED THEN DO NOTHING".to_owned(),
            1 => format!("WHEN MATCHED THEN UPDATE SET id = t.id + {fresh}"),
            _ => "WHEN MATCHED AND t.k IS NOT NULL THEN UPDATE SET word = 'merged' || s.sid"
                .to_owned(),
        });
        if self.dice.one_in(2) {
            let (mut names, mut values) = (self.names(), self.values("s.sid"));
            if self.schema.has_number {
                // The planner chooses the order in which rows are inserted.
                names.push_str(", number");
                values.push_str(", s.sid");
            }
            clauses.push(format!(
                "WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
            ));
        }
        if self.dice.one_in(4) {
            let action = *self.dice.pick(&["DELETE", "UPDATE SET word = 'orphan'"]);
            clauses.push(format!(
                "WHEN NOT MATCHED BY SOURCE AND t.id % 11 = {} THEN {action}",
                id % 11
            ));
        }
        let returning = *self.dice.pick(&[
            "",
            " RETURNING merge_action(), old.id, new.id, old.word, new.word",
        ]);
        format!(
            "MERGE INTO t USING (SELECT i AS sid FROM generate_series({id}, {last}) i) s ON t.id = s.sid {}{returning}",
            clauses.join(" ")
        )
    }

    fn lock_rows(&mut self) -> String {
        let (predicate, locking) = (self.predicate(), self.locking());
        let order =
            *self
                .dice
                .pick(&["", " ORDER BY id, t::text", " ORDER BY id, t::text LIMIT 3"]);
        format!("SELECT id, k, word FROM t WHERE {predicate}{order} {locking}")
    }

    fn cursor(&mut self) -> Steps {
        let name = self.name("cursor");
        let predicate = self.predicate();
        if self.dice.one_in(3) {
            return vec![
                format!(
                    "DECLARE {name} CURSOR WITH HOLD FOR SELECT id, k FROM t WHERE {predicate} ORDER BY id, t::text"
                ),
                format!("FETCH 2 FROM {name} /* ORDER BY */"),
                self.update(),
                format!("FETCH 5 FROM {name} /* ORDER BY */"),
            ];
        }
        let id = self.some_id();
        let query = if self.has_key() && self.dice.one_in(2) {
            // Ids repeat among partitions by list, and while a deferred key is not checked.
            let is_unique =
                self.schema.key == Key::Primary && self.schema.partitions != Partitions::List;
            let order = if is_unique { "id" } else { "id, t::text" };
            format!("SELECT id, k FROM t WHERE {predicate} ORDER BY {order} FOR UPDATE")
        } else if self.has_key() {
            format!("SELECT id, k FROM t WHERE id = {id}")
        } else {
            format!("SELECT id, k FROM t WHERE id = {id} AND false")
        };
        let change = match self.dice.below(3) {
            0 => format!("DELETE FROM t WHERE CURRENT OF {name}"),
            1 => format!("UPDATE t SET word = 'current' WHERE CURRENT OF {name} RETURNING id"),
            _ => format!(
                "UPDATE t SET id = id + {} WHERE CURRENT OF {name}",
                self.fresh()
            ),
        };
        vec![
            format!("DECLARE {name} CURSOR FOR {query}"),
            format!("FETCH FROM {name} /* ORDER BY */"),
            change.clone(),
            format!("FETCH FROM {name} /* ORDER BY */"),
            change,
            format!("CLOSE {name}"),
        ]
    }

    fn writable_cte(&mut self) -> String {
        let (predicate, assignments) = (self.predicate(), self.assignments());
        match self.dice.below(3) {
            0 => format!(
                "WITH gone AS (DELETE FROM t WHERE {predicate} RETURNING id, k, word) \
                 INSERT INTO archive SELECT id, k, word FROM gone RETURNING id"
            ),
            1 => {
                let (names, rows) = (self.names(), self.rows(5));
                format!(
                    "WITH come AS (INSERT INTO t ({names}) {rows} RETURNING id), \
                     changed AS (UPDATE t SET {assignments} WHERE {predicate} RETURNING id) \
                     SELECT (SELECT sum(id) FROM come), (SELECT count(*) FROM changed), (SELECT count(*) FROM t)"
                )
            }
            _ => format!(
                "WITH changed AS (UPDATE t SET {assignments} WHERE {predicate} RETURNING id, k, word) \
                 SELECT count(*), sum(id), sum(k) FROM changed"
            ),
        }
    }

    fn by_tid(&mut self) -> String {
        let (predicate, assignments) = (self.predicate(), self.assignments());
        let rows = "(t.tableoid, t.ctid) IN (SELECT tableoid, ctid FROM t WHERE";
        match self.dice.below(3) {
            0 if self.schema.partitions == Partitions::None => format!(
                "UPDATE t SET {assignments} WHERE ctid = ANY (ARRAY(SELECT ctid FROM t WHERE {predicate}))"
            ),
            1 => format!("DELETE FROM t WHERE {rows} {predicate})"),
            _ => format!("UPDATE t SET {assignments} WHERE {rows} {predicate})"),
        }
    }

    fn through_view(&mut self) -> String {
        let (id, fresh) = (self.some_id(), self.fresh());
        match self.dice.below(8) {
            0 => format!(
                "UPDATE v SET word = 'view' WHERE id BETWEEN {id} AND {}",
                id + 9
            ),
            1 => format!("UPDATE v SET id = id + 1 + {fresh} WHERE id = {id}"),
            2 => format!("DELETE FROM v WHERE id = {id} RETURNING *"),
            3 => format!("INSERT INTO v VALUES ({}, 1, 'v')", fresh + id),
            4 => format!(
                "UPDATE r SET word = 'rule' WHERE id BETWEEN {id} AND {}",
                id + 9
            ),
            5 => format!("DELETE FROM r WHERE id = {id}"),
            6 => format!(
                "UPDATE i SET word = 'instead' WHERE id BETWEEN {id} AND {}",
                id + 9
            ),
            _ => format!("DELETE FROM i WHERE id = {id}"),
        }
    }

    fn child(&mut self) -> String {
        let (id, fid) = (self.some_id(), self.dice.roll() % 40);
        match self.dice.below(6) {
            0..=2 => format!(
                "INSERT INTO f VALUES ({fid}, {id}, 'child') ON CONFLICT (fid) DO UPDATE SET ref = excluded.ref"
            ),
            3 => format!("UPDATE f SET ref = {id} WHERE fid = {fid} RETURNING *"),
            4 => format!("DELETE FROM f WHERE fid = {fid}"),
            _ => "SET CONSTRAINTS ALL IMMEDIATE".to_owned(),
        }
    }

    fn parent(&mut self) -> String {
        let pid = self.dice.roll() % PARENT_COUNT;
        match self.dice.below(4) {
            0 => format!("DELETE FROM p WHERE pid = {pid}"),
            1 => format!("UPDATE p SET pid = {} WHERE pid = {pid}", pid + 100),
            2 => "SET CONSTRAINTS ALL DEFERRED".to_owned(),
            _ => format!("INSERT INTO p VALUES ({pid}, 'back') ON CONFLICT DO NOTHING"),
        }
    }

    fn ranges(&mut self) -> String {
        let (room, at) = (self.dice.roll() % 4, self.dice.roll() % 60);
        let range = format!("int4range({at}, {})", at + 1 + self.dice.roll() % 9);
        let bid = self.dice.roll() % 9;
        match self.dice.below(10) {
            0..=3 => format!("INSERT INTO e VALUES ({room}, {range}, 'meeting')"),
            4 => format!("UPDATE e SET during = {range} WHERE room = {room} AND during @> {at}"),
            5 => format!("DELETE FROM e WHERE room = {room} AND during @> {at} RETURNING *"),
            6..=7 if self.schema.has_periods => {
                let inner = format!("int4range({at}, {})", at + 1 + bid % 3);
                format!(
                    "INSERT INTO b VALUES ({bid}, {room}, {inner}) ON CONFLICT (bid) DO UPDATE SET room = excluded.room, during = excluded.during"
                )
            }
            8 if self.schema.has_periods => format!("DELETE FROM b WHERE bid = {bid}"),
            _ => format!("INSERT INTO e VALUES ({room}, {range}, 'maybe') ON CONFLICT DO NOTHING"),
        }
    }

    fn read(&mut self) -> Steps {
        let predicate = self.predicate();
        let plan: &[&str] = self.dice.pick::<&[&str]>(&[
            &[],
            &["enable_seqscan"],
            &["enable_seqscan", "enable_bitmapscan"],
            &["enable_seqscan", "enable_indexscan", "enable_indexonlyscan"],
        ]);
        let mut steps: Steps = plan
            .iter()
            .map(|setting| format!("SET {setting} = off"))
            .collect();
        steps.push(format!(
            "SELECT count(*), sum(hashtextextended(t::text, 0)), min(id), max(id) FROM t WHERE {predicate}"
        ));
        steps.extend(plan.iter().map(|setting| format!("SET {setting} = on")));
        steps
    }
}
