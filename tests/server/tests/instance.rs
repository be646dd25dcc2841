//! The private server that `./howdah up` makes: unqualified tables are not created in the
//! extension's schema, also where the superuser still has the name that instances once gave it.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::symlink;

use anyhow::Context as _;
use howdah_cli::cluster::Cluster;
use howdah_cli::instance::{DATABASE, bring_up};
use howdah_cli::paths::Paths;
use howdah_cli::scratch::Scratch;
use howdah_server_tests::cluster::query;

/// A directory for an instance beside the one that the tests were built for, with its files of
/// the extension.
fn place(name: &str) -> anyhow::Result<(Scratch, Paths)> {
    let mut paths = Paths::from_environment()?;
    let scratch = Scratch::empty(&paths, name)?;
    let ext = paths.home.join("ext");
    paths.home.clone_from(&scratch.directory);
    symlink(&ext, paths.home.join("ext")).context("no link to the extension's files")?;
    Ok((scratch, paths))
}

fn schema_of_a_new_table(cluster: &Cluster, table: &str) -> anyhow::Result<String> {
    let mut session = cluster.connect(DATABASE)?;
    session.batch_execute(&format!("CREATE TABLE {table} (id int)"))?;
    query(
        &mut session,
        &format!("SELECT relnamespace::regnamespace FROM pg_class WHERE oid = '{table}'::regclass"),
    )
}

#[test]
fn tables_of_the_superuser_are_created_in_public() -> anyhow::Result<()> {
    let (_scratch, paths) = place("instance-new")?;
    let cluster = bring_up(&paths)?;
    assert_eq!(cluster.superuser, "postgres");
    assert_eq!(schema_of_a_new_table(&cluster, "zz")?, "public");
    assert!(fs::read_to_string(paths.password())?.contains(":postgres:"));
    Ok(())
}

#[test]
fn an_instance_whose_superuser_is_howdah_goes_on_working() -> anyhow::Result<()> {
    let (mut scratch, paths) = place("instance-old")?;
    scratch.cluster.superuser = "howdah".into();
    // It keeps its port, which no other server may use.
    scratch.cluster.port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port();
    let old = &scratch.cluster;
    old.create("C.UTF-8", None)?;
    fs::write(paths.password(), "127.0.0.1:1:*:howdah:secret\n")?;
    old.write_settings(&paths.extension_settings())?;
    old.start()?;
    old.connect("postgres")?
        .batch_execute("CREATE DATABASE howdah")?;
    old.connect(DATABASE)?
        .batch_execute("CREATE EXTENSION howdah")?;
    assert_eq!(schema_of_a_new_table(old, "before")?, "howdah");

    for time in ["first", "second"] {
        let cluster = bring_up(&paths)?;
        assert_eq!(cluster.superuser, "howdah");
        assert_eq!(schema_of_a_new_table(&cluster, time)?, "public");
        let mut session = cluster.connect(DATABASE)?;
        assert_eq!(query(&mut session, "SELECT count(*) FROM before")?, "0");
    }
    assert!(fs::read_to_string(paths.password())?.ends_with(":howdah:secret\n"));
    Ok(())
}
