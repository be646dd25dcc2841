//! The tables that generated queries read, and what else these name.

use std::fmt::Write as _;

use postgres::Client;

use super::columns::{COLUMNS, base_type, first_columns};
use crate::differential::Dice;

/// Types and functions of a user that columns and queries name: once in a database.
pub const FUNCTIONS: &str = "
    CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE DOMAIN small AS int CHECK (value < 1000);
    CREATE FUNCTION doubled(int8) RETURNS int8 LANGUAGE plpgsql IMMUTABLE STRICT
        AS 'BEGIN RETURN $1 % 1000 * 2; END';
    CREATE FUNCTION never_null(text) RETURNS text LANGUAGE plpgsql STABLE
        AS 'BEGIN RETURN coalesce($1, ''none''); END';
    CREATE TABLE junk (n int8) USING howdah;
    CREATE FUNCTION looped(query text) RETURNS int8 LANGUAGE plpgsql AS $$
    DECLARE one record; n int8 := 0;
    BEGIN
        FOR one IN EXECUTE query LOOP
            n := n + 1;
            CONTINUE WHEN n % 3 > 0;
            BEGIN INSERT INTO junk VALUES (n); PERFORM 1 / (n - n); EXCEPTION WHEN division_by_zero THEN NULL; END;
        END LOOP;
        RETURN n;
    END $$;
    CREATE FUNCTION picky(int8) RETURNS int8 LANGUAGE plpgsql IMMUTABLE
        AS 'BEGIN IF $1 = 17 THEN RAISE EXCEPTION ''not 17''; END IF; RETURN $1; END'";

/// Makes `h` of heap and `t` of howdah again, with the same rows in both.
///
/// # Errors
/// When a statement fails.
pub fn make_tables(session: &mut Client, dice: &mut Dice) -> anyhow::Result<()> {
    let mut list = String::new();
    for column in first_columns() {
        let value = dice.pick(column.values);
        let mut value = format!("({value})::{}", base_type(column));
        if !column.rare.is_empty() && dice.below(3) == 0 {
            let rare = dice.pick(column.rare);
            let ty = base_type(column);
            value = format!("CASE WHEN random() < 0.01 THEN ({rare})::{ty} ELSE {value} END");
        }
        value = match dice.below(6) {
            0 => format!("CASE WHEN random() < 0.2 THEN NULL ELSE {value} END"),
            1 if dice.below(4) == 0 => "NULL".to_owned(),
            _ => value,
        };
        write!(list, ", {value} AS {}", column.name)?;
    }
    let definition: Vec<String> = first_columns()
        .map(|column| format!("{} {}", column.name, column.ty))
        .collect();
    let definition = definition.join(", ");
    let rows = *dice.pick(&[0, 1, 300, 9_000, 20_000]);
    let seed = dice.below(1000) as f64 / 1000.0;
    let change = *dice.pick(&["false", "id % 10 = 3", "id < 9000", "true"]);
    let tables = match dice.below(2) {
        0 => "CREATE TABLE t (LIKE h) USING howdah".to_owned(),
        _ => partitions(dice, &definition),
    };
    session.batch_execute(&format!(
        "DROP TABLE IF EXISTS h, t;
         CREATE TABLE h (id int, {definition});
         {tables};
         SELECT setseed({seed});
         SET howdah.load_threshold = 0;
         INSERT INTO h SELECT g{list} FROM generate_series(1, {rows}) g;
         INSERT INTO t SELECT * FROM h;
         SET howdah.load_threshold = 1000000;
         INSERT INTO h SELECT g{list} FROM generate_series({rows} + 1, {rows} + {rows} / 20 + 3) g;
         INSERT INTO t SELECT * FROM h WHERE id > {rows};
         UPDATE h SET i4 = 1 WHERE id % 50 = 7;
         UPDATE t SET i4 = 1 WHERE id % 50 = 7;
         DELETE FROM h WHERE id % 40 = 1 AND {change};
         DELETE FROM t WHERE id % 40 = 1 AND {change};"
    ))?;
    let later = COLUMNS.iter().filter(|column| column.values.is_empty());
    for (at, column) in later.enumerate() {
        let (name, ty, rare) = (column.name, column.ty, column.rare);
        let first = rows + 5000 + 100 * at;
        for table in ["h", "t"] {
            session.batch_execute(&format!(
                "ALTER TABLE {table} ADD COLUMN {name} {ty} DEFAULT {};
                 ALTER TABLE {table} ALTER COLUMN {name} SET DEFAULT {};
                 INSERT INTO {table} (id) SELECT g FROM generate_series({first}, {first} + 10) g;
                 UPDATE {table} SET {name} = NULL WHERE id % 70 = 3",
                rare[0], rare[1]
            ))?;
        }
    }
    session.batch_execute(
        "DROP TABLE IF EXISTS source; CREATE TABLE source AS TABLE h; ANALYZE h; ANALYZE t",
    )?;
    Ok(())
}

/// Statements that make `t` a partitioned table: one partition with its columns in another order
/// and some dropped, one with partitions of its own, one of heap or howdah, one that is empty.
fn partitions(dice: &mut Dice, definition: &str) -> String {
    let mut turned: Vec<&str> = definition.split(", ").collect();
    turned.reverse();
    let turned = turned.join(", ");
    let apart = |name: &str, under: &str, bound: &str| {
        format!(
            "CREATE TABLE {name} (gone text, {turned}, more int, id int) USING howdah;
             ALTER TABLE {name} DROP COLUMN gone, DROP COLUMN more;
             ALTER TABLE {under} ATTACH PARTITION {name} FOR VALUES {bound}"
        )
    };
    let (by, bounds) = *dice.pick(&[
        (
            "LIST ((id % 4))",
            ["IN (0)", "IN (1)", "IN (2)", "IN (3, NULL)"],
        ),
        (
            "RANGE (id)",
            [
                "FROM (MINVALUE) TO (100)",
                "FROM (100) TO (5000)",
                "FROM (5000) TO (15000)",
                "FROM (15000) TO (MAXVALUE)",
            ],
        ),
        (
            "HASH (id)",
            [
                "WITH (MODULUS 4, REMAINDER 0)",
                "WITH (MODULUS 4, REMAINDER 1)",
                "WITH (MODULUS 4, REMAINDER 2)",
                "WITH (MODULUS 4, REMAINDER 3)",
            ],
        ),
    ]);
    let other = dice.pick(&["howdah", "heap"]);
    let parts = [
        format!("CREATE TABLE t (id int, {definition}) PARTITION BY {by}"),
        format!(
            "CREATE TABLE t0 PARTITION OF t FOR VALUES {} USING howdah",
            bounds[0]
        ),
        apart("t1", "t", bounds[1]),
        format!(
            "CREATE TABLE t2 PARTITION OF t FOR VALUES {} PARTITION BY RANGE (id)",
            bounds[2]
        ),
        "CREATE TABLE t2a PARTITION OF t2 FOR VALUES FROM (MINVALUE) TO (8000) USING howdah"
            .to_owned(),
        apart("t2b", "t2", "FROM (8000) TO (1000000)"),
        "CREATE TABLE t2c PARTITION OF t2 FOR VALUES FROM (1000000) TO (MAXVALUE) USING howdah"
            .to_owned(),
        format!(
            "CREATE TABLE t3 PARTITION OF t FOR VALUES {} USING {other}",
            bounds[3]
        ),
    ];
    parts.join("; ")
}
