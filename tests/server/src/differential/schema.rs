//! Generated schemas: a table `t` and the objects that depend on it.
//!
//! ```text
//!   p ◄── t.k            t ──► archive (written by statements)     v, r, i   views over t
//!         t.id ◄── f     t ──► log     (written by triggers)       e         ranges that must
//!                                                                            not overlap
//! ```

use super::Dice;
use super::kinds::{KINDS, Kind};

pub(super) struct Column {
    pub name: String,
    pub kind: &'static Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    None,
    Primary,
    /// Checked at commit, so that keys may be shifted.
    Deferred,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Partitions {
    None,
    Range,
    Hash,
    /// By `part`, which is in the key.
    List,
}

pub(super) struct Schema {
    pub columns: Vec<Column>,
    pub key: Key,
    pub partitions: Partitions,
    pub k_is_unique: bool,
    pub has_child: bool,
    pub has_parent: bool,
    pub has_ranges: bool,
    pub has_views: bool,
    /// Whether commands change hundreds of rows of one row group, which locks it as a whole.
    pub is_wide: bool,
    /// Whether the ranges have a child that refers to them by PERIOD.
    pub has_periods: bool,
    pub has_triggers: bool,
    /// Whether there is an identity column.
    pub has_number: bool,
    pub setup: Vec<String>,
}

const ACTIONS: &[&str] = &[
    "NO ACTION",
    "RESTRICT",
    "CASCADE",
    "SET NULL",
    "SET DEFAULT",
];
const DEFERRALS: &[&str] = &["", " DEFERRABLE", " DEFERRABLE INITIALLY DEFERRED"];

/// Parents that exist from the start: 0 to 9, the default among them.
pub(super) const PARENT_COUNT: u64 = 10;

impl Schema {
    pub fn new(dice: &mut Dice) -> Schema {
        let columns = (0..dice.below(5))
            .map(|number| Column {
                name: format!("c{number}"),
                kind: dice.pick(KINDS),
            })
            .collect();
        let partitions = match dice.below(8) {
            0 => Partitions::Range,
            1 => Partitions::Hash,
            2 => Partitions::List,
            _ => Partitions::None,
        };
        let key = match dice.below(6) {
            0 => Key::None,
            1 => Key::Deferred,
            _ => Key::Primary,
        };
        let has_parent = dice.one_in(4);
        let mut schema = Schema {
            columns,
            key,
            partitions,
            k_is_unique: !has_parent && partitions == Partitions::None && dice.one_in(4),
            has_child: key == Key::Primary && partitions != Partitions::List && dice.one_in(3),
            has_parent,
            has_ranges: dice.one_in(5),
            has_views: dice.one_in(4),
            is_wide: dice.one_in(3),
            has_periods: false,
            has_triggers: dice.one_in(3),
            has_number: dice.one_in(4),
            setup: Vec::new(),
        };
        schema.make_tables(dice);
        if schema.has_triggers {
            schema.make_triggers(dice);
        }
        if schema.has_views {
            schema.make_views();
        }
        if dice.one_in(3) {
            // REFRESH CONCURRENTLY requires a unique index.
            let has_unique = schema.key == Key::Primary && schema.partitions != Partitions::List;
            let index = if has_unique {
                "; CREATE UNIQUE INDEX ON m (id)"
            } else {
                ""
            };
            schema.setup.push(format!(
                "CREATE MATERIALIZED VIEW m AS SELECT id, k, word FROM t WHERE id % 3 = 0{index}"
            ));
        }
        let is_plain = schema.partitions == Partitions::None;
        if is_plain && dice.one_in(8) {
            for statement in &mut schema.setup {
                *statement = statement.replace("CREATE TABLE", "CREATE UNLOGGED TABLE");
            }
        }
        schema
    }

    fn make_tables(&mut self, dice: &mut Dice) {
        if self.has_parent {
            self.setup.push(format!(
                "CREATE TABLE p (pid int PRIMARY KEY, note text); \
                 INSERT INTO p SELECT i, 'parent' FROM generate_series(0, {}) i",
                PARENT_COUNT - 1
            ));
        }
        let table = self.table(dice);
        self.setup.push(table);
        let partitions = match self.partitions {
            Partitions::None => "",
            Partitions::Range => {
                "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (MINVALUE) TO (300); \
                 CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (300) TO (1000) USING heap; \
                 CREATE TABLE t3 PARTITION OF t DEFAULT"
            }
            Partitions::Hash => {
                "CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0); \
                 CREATE TABLE t2 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)"
            }
            Partitions::List => {
                "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (0); \
                 CREATE TABLE t2 PARTITION OF t FOR VALUES IN (1) USING heap; \
                 CREATE TABLE t3 PARTITION OF t DEFAULT"
            }
        };
        if !partitions.is_empty() {
            self.setup.push(partitions.to_owned());
        }
        if self.k_is_unique {
            let deferral = *dice.pick(DEFERRALS);
            self.setup.push(format!(
                "ALTER TABLE t ADD CONSTRAINT k_once UNIQUE (k){deferral}"
            ));
        }
        if self.has_child {
            self.setup.push(format!(
                "CREATE TABLE f (fid int PRIMARY KEY, ref bigint DEFAULT 1 REFERENCES t (id) \
                 ON DELETE {} ON UPDATE {}{}, note text); CREATE INDEX ON f (ref)",
                dice.pick(ACTIONS),
                dice.pick(ACTIONS),
                dice.pick(DEFERRALS)
            ));
        }
        if self.has_ranges {
            self.has_periods = dice.one_in(2);
            self.setup.push(
                match dice.below(3) {
                    _ if self.has_periods => "CREATE TABLE e (room int, during int4range, note text, PRIMARY KEY (room, during WITHOUT OVERLAPS)); CREATE TABLE b (bid int PRIMARY KEY, room int, during int4range, FOREIGN KEY (room, PERIOD during) REFERENCES e (room, PERIOD during))",
                    0 => "CREATE TABLE e (room int, during int4range, note text, PRIMARY KEY (room, during WITHOUT OVERLAPS))",
                    1 => "CREATE TABLE e (room int, during int4range, note text, EXCLUDE USING gist (room WITH =, during WITH &&))",
                    _ => "CREATE TABLE e (room int, during int4range, note text, EXCLUDE USING gist (room WITH =, during WITH &&) DEFERRABLE INITIALLY DEFERRED)",
                }
                .to_owned(),
            );
        }
        self.setup
            .push("CREATE TABLE archive (id bigint, k int, word text)".to_owned());
    }

    fn table(&self, dice: &mut Dice) -> String {
        let mut parts = vec!["id bigint".to_owned()];
        parts.push(if self.has_parent {
            format!(
                "k int DEFAULT 0 REFERENCES p ON DELETE {} ON UPDATE {}{}",
                dice.pick(ACTIONS),
                dice.pick(ACTIONS),
                dice.pick(DEFERRALS)
            )
        } else {
            "k int".to_owned()
        });
        parts.push(match dice.below(3) {
            0 => "word text CHECK (length(word) < 40)".to_owned(),
            _ => "word text".to_owned(),
        });
        if self.partitions == Partitions::List {
            parts.push("part int DEFAULT 0".to_owned());
        }
        parts.extend(
            self.columns
                .iter()
                .map(|column| format!("{} {}", column.name, column.kind.sql)),
        );
        if dice.one_in(4) {
            parts.push("twice bigint GENERATED ALWAYS AS (id * 2 + k) STORED".to_owned());
        }
        if dice.one_in(5) {
            parts.push("half bigint GENERATED ALWAYS AS (id / 2) VIRTUAL".to_owned());
        }
        if self.has_number {
            parts.push("number int GENERATED BY DEFAULT AS IDENTITY".to_owned());
        }
        let columns = match self.partitions {
            Partitions::List => "id, part",
            _ => "id",
        };
        match self.key {
            Key::None => {}
            Key::Primary => parts.push(format!("PRIMARY KEY ({columns})")),
            Key::Deferred => {
                parts.push(format!(
                    "PRIMARY KEY ({columns}) DEFERRABLE INITIALLY DEFERRED"
                ));
            }
        }
        let by = match self.partitions {
            Partitions::None => "",
            Partitions::Range => " PARTITION BY RANGE (id)",
            Partitions::Hash => " PARTITION BY HASH (id)",
            Partitions::List => " PARTITION BY LIST (part)",
        };
        format!("CREATE TABLE t ({}){by}", parts.join(", "))
    }

    fn make_triggers(&mut self, dice: &mut Dice) {
        self.setup.push("CREATE TABLE log (what text)".to_owned());
        self.setup.push(
            "CREATE FUNCTION note_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             INSERT INTO log VALUES (concat_ws(' ', TG_WHEN, TG_OP, to_jsonb(OLD)->>'id', to_jsonb(NEW)->>'id', to_jsonb(NEW)->>'k')); \
             IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$"
                .to_owned(),
        );
        self.setup.push(
            "CREATE FUNCTION change_row() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF NEW.id % 13 = 0 THEN RETURN NULL; END IF; NEW.word := NEW.word || '+'; RETURN NEW; END $$"
                .to_owned(),
        );
        self.setup.push(
            "CREATE FUNCTION note_statement() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF TG_OP <> 'INSERT' THEN INSERT INTO log SELECT concat_ws(' ', TG_OP, 'old', count(*), sum(id), sum(k)) FROM gone; END IF; \
             IF TG_OP <> 'DELETE' THEN INSERT INTO log SELECT concat_ws(' ', TG_OP, 'new', count(*), sum(id), sum(k)) FROM come; END IF; \
             RETURN NULL; END $$"
                .to_owned(),
        );
        let triggers = [
            "CREATE TRIGGER a BEFORE INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note_row()",
            "CREATE TRIGGER b AFTER INSERT OR UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION note_row()",
            "CREATE TRIGGER c BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION change_row()",
            "CREATE TRIGGER d AFTER INSERT ON t REFERENCING NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION note_statement()",
            "CREATE TRIGGER e AFTER UPDATE ON t REFERENCING OLD TABLE AS gone NEW TABLE AS come FOR EACH STATEMENT EXECUTE FUNCTION note_statement()",
            "CREATE TRIGGER f AFTER DELETE ON t REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note_statement()",
            "CREATE CONSTRAINT TRIGGER g AFTER UPDATE OR DELETE ON t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note_row()",
            "CREATE TRIGGER h AFTER UPDATE OF k ON t FOR EACH ROW WHEN (OLD.k IS DISTINCT FROM NEW.k) EXECUTE FUNCTION note_row()",
        ];
        for trigger in triggers {
            if dice.one_in(2) {
                self.setup.push(trigger.to_owned());
            }
        }
        if self.key == Key::Primary && dice.one_in(3) {
            // What a command has done so far, as its own triggers see it. Only the row itself is
            // read: how many other rows have changed by then depends on the order.
            self.setup.push(
                "CREATE FUNCTION count_rows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 INSERT INTO log SELECT concat_ws(' ', TG_WHEN, TG_OP, OLD.id, count(*), count(DISTINCT id), count(*) FILTER (WHERE word = OLD.word)) FROM t WHERE id = OLD.id; \
                 IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$"
                    .to_owned(),
            );
            let when = *dice.pick(&["BEFORE", "AFTER"]);
            self.setup.push(format!(
                "CREATE TRIGGER n {when} UPDATE OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION count_rows()"
            ));
        }
    }

    fn make_views(&mut self) {
        self.setup.push(
            "CREATE VIEW v AS SELECT id, k, word FROM t WHERE id % 2 = 0 WITH CHECK OPTION"
                .to_owned(),
        );
        self.setup.push(
            "CREATE VIEW r AS SELECT id, k, word FROM t; \
             CREATE RULE change AS ON UPDATE TO r DO INSTEAD UPDATE t SET word = NEW.word WHERE id = OLD.id; \
             CREATE RULE remove AS ON DELETE TO r DO INSTEAD DELETE FROM t WHERE id = OLD.id"
                .to_owned(),
        );
        self.setup.push(
            "CREATE VIEW i AS SELECT id, k, word FROM t; \
             CREATE FUNCTION through() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF TG_OP = 'DELETE' THEN DELETE FROM t WHERE id = OLD.id; RETURN OLD; END IF; \
             UPDATE t SET word = NEW.word WHERE id = OLD.id; RETURN NEW; END $$; \
             CREATE TRIGGER through INSTEAD OF UPDATE OR DELETE ON i FOR EACH ROW EXECUTE FUNCTION through()"
                .to_owned(),
        );
    }
}
