//! The step `contrib-cold`: the suites of PostgreSQL's contrib modules and of PL/pgSQL, with every
//! inserted row cold at once. Each module gets a new database with the name that its expected
//! output contains.
//!
//! ```text
//!   contrib/*/Makefile ─► modules with suites ─┬─► one server for most of them
//!                                              └─► one more for each --temp-config
//! ```
//!
//! Modules that this PostgreSQL was built without (languages and libraries that the machine lacks)
//! are left out. Reviewed differences are in `tests/postgres/contrib-cold/MODULE`.
//!
//! `contrib-vectorized` is the same with every query by the vectorized engine that may be; its own
//! reviewed differences are in `tests/postgres/contrib-vectorized/MODULE`.

mod module;

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use self::module::{Module, settings_of};
use super::crash_log::count_crashes;
use super::judge::{Judge, Judgement};
use super::pg_regress::{Run, Selection};
use super::plan::Options;
use super::suite::{self, Rows};
use super::tally::Tally;
use crate::paths::Paths;
use crate::progress::{Counting, Progress};
use crate::scratch::Scratch;

/// Which plans run the queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queries {
    Planned,
    Vectorized,
}

impl Queries {
    fn title(self) -> &'static str {
        match self {
            Self::Planned => "contrib-cold",
            Self::Vectorized => "contrib-vectorized",
        }
    }

    fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Planned => &[],
            Self::Vectorized => &suite::VECTORIZED,
        }
    }

    /// The directories of `tests/postgres` with reviewed differences.
    fn reviewed(self) -> &'static [&'static str] {
        match self {
            Self::Planned => &["contrib-cold"],
            Self::Vectorized => &["contrib-vectorized", "contrib-cold"],
        }
    }
}

pub(super) fn run(paths: &Paths, options: &Options, queries: Queries) -> anyhow::Result<Tally> {
    let title = queries.title();
    let progress = Progress::open_ended(title);
    let Some(source) = &paths.postgres_source else {
        progress.finish(suite::NO_SOURCES);
        return Ok(Tally::skip(1));
    };
    // Tests of a module depend on one another: it runs whole or not at all.
    let modules: Vec<Module> = module::all(source)?
        .into_iter()
        .filter(|module| module.test_names().any(|name| options.wants(&name)))
        .collect();
    if modules.is_empty() {
        progress.finish("no test matches");
        return Ok(Tally::default());
    }
    progress.vanish();
    let test_count = modules
        .iter()
        .map(|module| module.test_names().count())
        .sum::<usize>();
    let mut by_config = BTreeMap::<Option<PathBuf>, Vec<Module>>::new();
    for module in modules {
        by_config
            .entry(module.temp_config())
            .or_default()
            .push(module);
    }
    let mut progress = Progress::of(title, test_count as u64, Counting::Things);
    let mut judgement = Judgement::default();
    for (config, modules) in by_config {
        let server = Server::start(paths, config.as_deref(), queries)?;
        judgement.add(server.run(paths, options, &modules, &mut progress)?);
    }
    progress.finish(&judgement.outcome(None));
    Ok(judgement.tally)
}

/// A server for modules that need the same settings.
struct Server {
    scratch: Scratch,
    queries: Queries,
}

impl Server {
    fn start(paths: &Paths, config: Option<&Path>, queries: Queries) -> anyhow::Result<Self> {
        let mut settings: Vec<(String, String)> = Rows::Cold
            .settings()
            .iter()
            .chain(queries.settings())
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        if let Some(config) = config {
            settings.extend(settings_of(config)?);
        }
        let settings: Vec<(&str, &str)> = settings
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let scratch = Scratch::start(paths, queries.title(), &settings)?;
        Ok(Self { scratch, queries })
    }

    /// Runs the modules' tests, and shows where they differ.
    fn run(
        mut self,
        paths: &Paths,
        options: &Options,
        modules: &[Module],
        progress: &mut Progress,
    ) -> anyhow::Result<Judgement> {
        let work = self.scratch.directory.join("work");
        let account = self.scratch.cluster.account;
        account.make_private_directory(&work)?;
        let mut judgement = Judgement::default();
        let title = self.queries.title();
        for module in modules {
            for suite in module.suites() {
                let output = work.join(format!("{}-{}", module.name, suite.kind.name()));
                account.make_private_directory(&output)?;
                // Tests name their data by paths from the directory in which make runs them.
                symlink(module.directory.join("data"), output.join("data"))?;
                suite::make_database(&self.scratch, suite.database)?;
                let mut client = self.scratch.cluster.connect(suite.database)?;
                for extension in suite.extensions_to_load() {
                    client.batch_execute(&format!("CREATE EXTENSION {extension}"))?;
                }
                drop(client);
                let results = Run {
                    cluster: &self.scratch.cluster,
                    program: self.scratch.cluster.postgres.pgxs.join(suite.kind.driver()),
                    database: suite.database,
                    input: &module.directory,
                    expected: &module.directory,
                    output: &output,
                    selection: Selection::Names(suite.tests),
                    more_arguments: suite.kind.arguments(&module.regress_library_directory),
                }
                .results(progress)
                .inspect_err(|_| self.scratch.keep())?;
                let reviewed = paths.root.join("tests/postgres");
                let known: Vec<PathBuf> = (self.queries.reviewed().iter())
                    .map(|directory| reviewed.join(directory).join(&module.name))
                    .collect();
                let one = Judge {
                    title: &format!("{title}: {}", module.name),
                    rows: Rows::Cold,
                    expected: &module.directory.join("expected"),
                    output: &output,
                    known: &known,
                    accept: options.accept,
                }
                .judge(results)?;
                judgement.add(one);
                self.scratch
                    .cluster
                    .connect("postgres")?
                    .batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", suite.database))?;
            }
        }
        count_crashes(
            title,
            &self.scratch.cluster.log,
            progress,
            &mut judgement.tally,
        );
        if judgement.tally.failed > 0 || options.keep {
            self.scratch.keep();
        }
        if judgement.tally.failed > 0 {
            progress.line(&format!("  {title}: differences in {}", work.display()));
        }
        Ok(judgement)
    }
}
