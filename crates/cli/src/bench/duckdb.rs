//! DuckDB beside the two PostgreSQL sides: its Python package from the Python package index, run
//! in a process of its own on the same rows, carried over as CSV.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use postgres::Client;
use serde::{Deserialize, Serialize};

use super::figure::Outcome;
use super::python_package::{self, run};
use super::queries::{Asked, sql};
use super::statement::{Rows, first_difference};
use super::{Measured, Options, points, table};
use crate::paths::Paths;
use crate::progress::Progress;

const PACKAGE: &str = "duckdb";
const SCRIPT: &str = include_str!("duckdb.py");

/// The installed package, and a directory for its files.
pub(super) struct DuckDb {
    package: PathBuf,
    work: PathBuf,
}

/// What is asked in one process: rows are made in a table `source`, loaded into `t`, and asked for
/// there.
#[derive(Serialize)]
pub(super) struct Request {
    database: PathBuf,
    /// Statements that make `source`.
    pub source: Vec<String>,
    runs: u32,
    /// A statement that indexes `t` after the load.
    index: Option<&'static str>,
    pub questions: Vec<Asking>,
    /// Keys of the rows that are looked up one by one.
    keys: Vec<i64>,
}

#[derive(Serialize)]
pub(super) struct Asking {
    pub sql: String,
    /// Undone after each run.
    pub changes: bool,
}

#[derive(Deserialize)]
pub(super) struct Response {
    version: String,
    pub load_seconds: Vec<f64>,
    index_seconds: Option<f64>,
    table_bytes: u64,
    pub questions: Vec<Answered>,
    lookup_microseconds: Vec<f64>,
}

#[derive(Deserialize)]
pub(super) struct Answered {
    pub milliseconds: Vec<f64>,
    pub rows: Rows,
}

impl DuckDb {
    /// # Errors
    /// When the package cannot be installed.
    pub fn prepare(paths: &Paths) -> anyhow::Result<Self> {
        let package = python_package::installed(paths, PACKAGE)?;
        let work = paths.cache.join(PACKAGE).join("work");
        fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
        Ok(Self { package, work })
    }

    /// Adds DuckDB's measurements, and compares its answers with heap's.
    pub fn fill_in(
        &self,
        client: &mut Client,
        options: &Options,
        measured: &mut Measured,
    ) -> anyhow::Result<()> {
        let progress = Progress::open_ended("asking DuckDB");
        let csv = self.work.join("source.csv");
        let mut file = File::create(&csv)?;
        let copy = "COPY bench.source TO STDOUT (FORMAT csv)";
        io::copy(&mut client.copy_out(copy)?, &mut file)?;
        let response = self.ask_all(options, &csv, &measured.asked);
        fs::remove_file(&csv)?;
        let response = response?;
        if let [load, size, index] = &mut measured.loaded[..] {
            load.duckdb = Outcome::Measured(response.load_seconds);
            size.duckdb = Outcome::one(response.table_bytes as f64);
            index.duckdb = response.index_seconds.map_or(Outcome::Absent, Outcome::one);
        }
        for (asked, answered) in measured.asked.iter_mut().zip(response.questions) {
            asked.figure.duckdb = Outcome::Measured(answered.milliseconds);
            if !asked.question.changes && asked.figure.difference.is_none() {
                asked.figure.difference =
                    first_difference(("heap", &asked.answer), ("DuckDB", &answered.rows));
            }
        }
        if let Some(cold) = measured.points.first_mut() {
            let lookups = Outcome::Measured(response.lookup_microseconds);
            cold.duckdb = lookups.median().map_or(Outcome::Absent, Outcome::one);
        }
        progress.finish(&format!("version {}", response.version));
        Ok(())
    }

    /// The questions about the big table, and rows by key.
    fn ask_all(&self, options: &Options, csv: &Path, asked: &[Asked]) -> anyhow::Result<Response> {
        let question = |asked: &Asked| {
            let text = asked.question.duckdb_sql.unwrap_or(asked.question.sql);
            Asking {
                sql: sql(text, "t", options.rows),
                changes: asked.question.changes,
            }
        };
        let (columns, csv) = (table::COLUMNS, csv.display());
        self.ask(Request {
            source: vec![
                format!("CREATE TABLE source ({columns})"),
                format!("COPY source FROM '{csv}' (FORMAT csv, HEADER false)"),
            ],
            index: Some("CREATE UNIQUE INDEX t_c1 ON t (c1)"),
            questions: asked.iter().map(question).collect(),
            keys: points::keys(1, options.rows).collect(),
            ..self.request(options)
        })
    }

    /// A request without rows and questions.
    pub fn request(&self, options: &Options) -> Request {
        Request {
            database: self.work.join("bench.duckdb"),
            source: Vec::new(),
            runs: options.runs,
            index: None,
            questions: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// # Errors
    /// When Python, DuckDB or a statement fails.
    pub fn ask(&self, request: Request) -> anyhow::Result<Response> {
        let database = request.database.clone();
        let (script, file) = (self.work.join("bench.py"), self.work.join("request.json"));
        fs::write(&script, SCRIPT)?;
        fs::write(&file, serde_json::to_vec(&request)?)?;
        let mut python = Command::new("python3");
        python
            .env("PYTHONPATH", &self.package)
            .arg(&script)
            .arg(&file);
        let output = run(&mut python);
        for leftover in [database.clone(), database.with_extension("duckdb.wal")] {
            // The file may be large, or may not exist; nothing depends on it.
            let _ = fs::remove_file(leftover);
        }
        serde_json::from_slice(&output?).context("DuckDB's answer cannot be read")
    }
}
