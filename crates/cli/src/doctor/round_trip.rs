//! The last check: a fresh server loads the extension, and a howdah table returns the rows that
//! were inserted, also after a restart of the server.

use anyhow::{Context as _, ensure};

use super::Finding;
use crate::cluster::StopMode;
use crate::paths::Paths;
use crate::scratch::Scratch;

const ROW_COUNT: i64 = 10_000;

pub(super) fn check(paths: &Paths) -> Vec<Finding> {
    let library = paths.extension_library();
    if !library.exists() {
        let detail = format!("{} is missing", library.display());
        return vec![Finding::fail(
            "extension",
            detail,
            "./howdah up builds and installs it",
        )];
    }
    vec![match round_trip(paths) {
        Ok(version) => Finding::ok(
            "extension",
            format!("howdah {version} loads, and rows make the round trip through a table"),
        ),
        Err(error) => Finding::fail(
            "extension",
            format!("{error:#}"),
            "./howdah up builds it anew; if that does not help, this is a defect to report",
        ),
    }]
}

fn round_trip(paths: &Paths) -> anyhow::Result<String> {
    let scratch = Scratch::start(paths, "doctor", &[])?;
    let mut client = scratch.cluster.connect("postgres")?;
    client
        .batch_execute("CREATE EXTENSION howdah")
        .context("CREATE EXTENSION failed")?;
    client.batch_execute(&format!(
        "CREATE TABLE trip (id bigint PRIMARY KEY, word text) USING howdah;
         INSERT INTO trip SELECT i, md5(i::text) FROM generate_series(1, {ROW_COUNT}) i"
    ))?;
    drop(client);
    scratch.cluster.stop(StopMode::Fast)?;
    scratch.cluster.start()?;
    let mut client = scratch.cluster.connect("postgres")?;
    let row = client.query_one(
        "SELECT count(*), count(*) FILTER (WHERE word = md5(id::text)) FROM trip",
        &[],
    )?;
    let (there, right): (i64, i64) = (row.get(0), row.get(1));
    ensure!(
        there == ROW_COUNT && right == ROW_COUNT,
        "{ROW_COUNT} rows went in, {there} came back, {right} of them unchanged"
    );
    let row = client.query_one(
        "SELECT extversion FROM pg_extension WHERE extname = 'howdah'",
        &[],
    )?;
    Ok(row.get(0))
}
