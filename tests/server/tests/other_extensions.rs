//! Tables that other extensions make, where howdah is the default access method.

use std::fs;

use anyhow::ensure;
use howdah_server_tests::cluster::{Primary, query};

const METHOD: &str = "SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid =";

/// Tables of an extension's own are heap, unless it says otherwise.
#[test]
fn tables_of_an_extension_are_heap() -> anyhow::Result<()> {
    let primary = Primary::start(
        "extension-tables",
        &[("default_table_access_method", "howdah")],
    )?;
    let files = primary.data.join("others");
    let directory = files.join("extension");
    fs::create_dir_all(&directory)?;
    let control = "default_version = '1'\nrelocatable = true\n";
    fs::write(directory.join("notebook.control"), control)?;
    let script = "CREATE TABLE notes (id int); CREATE TABLE cold_notes (id int) USING howdah;";
    fs::write(directory.join("notebook--1.sql"), script)?;
    let update = "CREATE TABLE more_notes (id int);";
    fs::write(directory.join("notebook--1--2.sql"), update)?;
    let mut session = primary.session()?;
    session.batch_execute(&format!(
        "SET extension_control_path = '{}:$system'; CREATE EXTENSION notebook;
         ALTER EXTENSION notebook UPDATE TO '2'; CREATE TABLE own (id int)",
        files.display()
    ))?;
    for (table, expected) in [
        ("notes", "heap"),
        ("cold_notes", "howdah"),
        ("more_notes", "heap"),
        ("own", "howdah"),
    ] {
        let method = query(&mut session, &format!("{METHOD} '{table}'::regclass"))?;
        ensure!(method == expected, "{table} is {method}");
    }
    Ok(())
}

/// pg_repack swaps the files of a table and of its copy, which it makes like this.
#[test]
fn a_copy_of_pg_repack_has_the_access_method_of_its_table() -> anyhow::Result<()> {
    let primary = Primary::start("repack-copies", &[])?;
    let mut session = primary.session()?;
    session.batch_execute(
        "CREATE SCHEMA repack; CREATE TABLE h (id int) USING heap; CREATE TABLE c (id int) USING howdah",
    )?;
    for (default, table, expected) in [
        ("howdah", "h", "heap"),
        ("heap", "c", "howdah"),
        ("howdah", "c", "howdah"),
    ] {
        session.batch_execute(&format!("SET default_table_access_method = {default}"))?;
        let oid = query(&mut session, &format!("SELECT '{table}'::regclass::oid"))?;
        session.batch_execute(&format!(
            "DO $$ BEGIN EXECUTE 'CREATE TABLE repack.table_{oid} AS SELECT * FROM ONLY {table} WITH NO DATA'; END $$"
        ))?;
        let copy = format!("{METHOD} 'repack.table_{oid}'::regclass");
        let method = query(&mut session, &copy)?;
        ensure!(method == expected, "the copy of {table} is {method}");
        session.batch_execute(&format!("DROP TABLE repack.table_{oid}"))?;
        let now = query(&mut session, "SHOW default_table_access_method")?;
        ensure!(now == default, "the default became {now}");
    }
    Ok(())
}
