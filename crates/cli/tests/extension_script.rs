//! What CREATE EXTENSION runs names every object by its schema.
//!
//! Views run with the rights of their reader, and operators are found by the types of their
//! arguments first: one that another role has put into any schema of the search path is taken
//! before `pg_catalog`'s if it fits better. A linter for extension scripts (pgspot) taught the
//! rules; they stand here because it is not installed everywhere.

use std::fs;
use std::path::Path;

const OPERATOR_CHARACTERS: &str = "+-*/<>=~!@#%^&|`?";

/// The script without comments, strings, psql's commands and qualified operators.
fn bare(script: &str) -> String {
    let mut bare = String::new();
    for line in script.lines() {
        let line = line.split("--").next().unwrap_or_default();
        if line.starts_with('\\') {
            continue;
        }
        let outside_strings: Vec<&str> = line.split('\'').step_by(2).collect();
        let mut rest = outside_strings.join("''");
        while let Some(start) = rest.find("OPERATOR(pg_catalog.") {
            let length = rest[start..].find(')').expect("a closing parenthesis");
            rest.replace_range(start..=start + length, "");
        }
        bare.push_str(&rest);
        bare.push('\n');
    }
    bare
}

fn script() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../extension/sql/howdah--0.1.0.sql");
    fs::read_to_string(path).expect("the script")
}

/// What is wrong with a script, line by line.
fn faults(script: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for line in bare(script).lines() {
        // `count(*)`, `o.*` and arguments' defaults are no operators.
        let plain = line.replace("(*)", "").replace(".*", "");
        if plain.contains(|c| OPERATOR_CHARACTERS.contains(c)) {
            faults.push(format!("unqualified operator: {line}"));
        }
        let words: Vec<&str> = plain
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.')
            .collect();
        for word in ["IN", "NULLIF", "LIKE", "BETWEEN", "USING", "DO"] {
            if words.contains(&word) {
                faults.push(format!("{word} looks for operators by name: {line}"));
            }
        }
        if plain.contains("CREATE OR REPLACE") {
            faults.push(format!("replaces what another role may own: {line}"));
        }
        if plain.contains("IF NOT EXISTS") {
            faults.push(format!("takes what another role may own: {line}"));
        }
        for word in ["FUNCTION", "PROCEDURE", "VIEW", "TABLE"] {
            let created = plain.trim_start().strip_prefix(&format!("CREATE {word} "));
            if created.is_some_and(|name| !name.starts_with("howdah.")) {
                faults.push(format!("created in whatever schema comes first: {line}"));
            }
        }
        let cast_to_a_name = plain
            .split("::")
            .skip(1)
            .any(|target| !target.starts_with("pg_catalog."));
        if cast_to_a_name {
            faults.push(format!("unqualified type: {line}"));
        }
    }
    faults
}

#[test]
fn the_script_names_every_object_by_its_schema() {
    assert_eq!(faults(&script()), Vec::<String>::new());
}

#[test]
fn what_is_not_qualified_is_found() {
    for faulty in [
        "JOIN a ON a.oid = c.relam",
        "WHERE kind IN ('r', 'm')",
        "SELECT NULLIF(a, 0)",
        "SELECT c.oid::regclass",
        "CREATE FUNCTION adopt(relation regclass)",
        "CREATE OR REPLACE FUNCTION howdah.adopt(relation regclass)",
    ] {
        assert_eq!(faults(faulty).len(), 1, "{faulty}");
    }
    let fine = "SELECT o.*, count(*) -- a = b\nWHERE a OPERATOR(pg_catalog.=) 'b = c';";
    assert_eq!(faults(fine), Vec::<String>::new());
}
