//! The suites of a contrib module, according to its Makefile. Make itself is run, because the lists
//! depend on how PostgreSQL was configured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

/// Makefile's variables, one line for each.
const QUESTION: &str = "howdah-suites: ; @printf '%s\\n' '$(REGRESS)' '$(ISOLATION)' '$(REGRESS_OPTS)' '$(ISOLATION_OPTS)' '$(MODULE_big) $(MODULES)'";

/// A contrib module, or PL/pgSQL, with its tests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Module {
    pub name: String,
    pub directory: PathBuf,
    /// Holds `regress.so`, which some tests load.
    pub regress_library_directory: PathBuf,
    regress: Tests,
    isolation: Tests,
    /// The module's own libraries, without their endings.
    libraries: Vec<String>,
}

/// What a Makefile lists for one driver.
#[derive(Debug, PartialEq, Eq)]
struct Tests {
    names: Vec<String>,
    options: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Regress,
    Isolation,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Regress => "regress",
            Self::Isolation => "isolation",
        }
    }

    /// The driver's path below the directory of PGXS.
    pub fn driver(self) -> &'static str {
        match self {
            Self::Regress => "test/regress/pg_regress",
            Self::Isolation => "test/isolation/pg_isolation_regress",
        }
    }

    pub fn arguments(self, regress_library_directory: &Path) -> Vec<String> {
        match self {
            Self::Regress => vec![format!("--dlpath={}", regress_library_directory.display())],
            Self::Isolation => Vec::new(),
        }
    }
}

/// The tests of a module that one driver runs.
pub(super) struct Suite<'a> {
    pub kind: Kind,
    /// The name that the expected output contains.
    pub database: &'static str,
    pub tests: &'a [String],
    options: &'a [String],
}

/// The modules that were built and have tests, in the order of their names, PL/pgSQL first.
pub(super) fn all(source: &Path) -> anyhow::Result<Vec<Module>> {
    let contrib = source.join("contrib");
    let mut directories = Vec::new();
    for entry in
        fs::read_dir(&contrib).with_context(|| format!("cannot read {}", contrib.display()))?
    {
        let directory = entry?.path();
        if directory.join("Makefile").exists() {
            directories.push(directory);
        }
    }
    directories.sort();
    let mut modules = vec![Module {
        name: "plpgsql".into(),
        ..ask(source, &source.join("src/pl/plpgsql/src"))?
    }];
    for directory in directories {
        modules.push(ask(source, &directory)?);
    }
    modules.retain(|module| module.is_built() && module.test_names().next().is_some());
    Ok(modules)
}

fn ask(source: &Path, directory: &Path) -> anyhow::Result<Module> {
    let output = Command::new("make")
        .args(["--silent", "--no-print-directory", "--eval", QUESTION])
        .arg("--directory")
        .arg(directory)
        .arg("howdah-suites")
        .output()
        .context("cannot run make")?;
    ensure!(
        output.status.success(),
        "make cannot tell the tests of {}:\n{}",
        directory.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(Module::parse(
        source,
        directory,
        &String::from_utf8_lossy(&output.stdout),
    ))
}

impl Module {
    fn parse(source: &Path, directory: &Path, answer: &str) -> Self {
        let mut lines = answer.lines().map(|line| {
            let words = line.split_whitespace();
            words.map(str::to_owned).collect::<Vec<_>>()
        });
        let mut next = || lines.next().unwrap_or_default();
        let (regress, isolation, regress_options, isolation_options) =
            (next(), next(), next(), next());
        Self {
            name: directory
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            directory: directory.into(),
            regress_library_directory: source.join("src/test/regress"),
            regress: Tests {
                names: regress,
                options: regress_options,
            },
            isolation: Tests {
                names: isolation,
                options: isolation_options,
            },
            libraries: next(),
        }
    }

    fn is_built(&self) -> bool {
        self.libraries
            .iter()
            .all(|library| self.directory.join(format!("{library}.so")).exists())
    }

    /// `MODULE/TEST`.
    pub fn test_names(&self) -> impl Iterator<Item = String> {
        let tests = self.regress.names.iter().chain(&self.isolation.names);
        tests.map(|test| format!("{}/{test}", self.name))
    }

    pub fn suites(&self) -> Vec<Suite<'_>> {
        let database = if self.name == "plpgsql" {
            "pl_regression"
        } else {
            "contrib_regression"
        };
        let regress = Suite {
            kind: Kind::Regress,
            database,
            tests: &self.regress.names,
            options: &self.regress.options,
        };
        let isolation = Suite {
            kind: Kind::Isolation,
            database: "isolation_regression",
            tests: &self.isolation.names,
            options: &self.isolation.options,
        };
        let mut suites = vec![regress, isolation];
        suites.retain(|suite| !suite.tests.is_empty());
        suites
    }

    /// The settings that the module's server must have.
    pub fn temp_config(&self) -> Option<PathBuf> {
        let config = self
            .suites()
            .iter()
            .find_map(|suite| suite.option("--temp-config").next())?;
        Some(self.directory.join(config))
    }
}

impl<'a> Suite<'a> {
    /// The values of an option, as `--name=value` or `--name value`.
    fn option(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let mut words = self.options.iter();
        std::iter::from_fn(move || {
            while let Some(word) = words.next() {
                match word.strip_prefix(name) {
                    Some("") => return words.next().map(String::as_str),
                    Some(value) if value.starts_with('=') => return Some(&value[1..]),
                    _ => {}
                }
            }
            None
        })
    }

    /// pg_regress itself loads these only into databases that it has made.
    pub fn extensions_to_load(&self) -> impl Iterator<Item = &'a str> {
        self.option("--load-extension")
    }
}

/// The settings in a file of `name = value` lines.
pub(super) fn settings_of(config: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let text =
        fs::read_to_string(config).with_context(|| format!("cannot read {}", config.display()))?;
    Ok(parse_settings(&text))
}

/// The extension is preloaded in addition to the libraries that the file preloads.
fn parse_settings(text: &str) -> Vec<(String, String)> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.trim(), value.trim().trim_matches('\'')))
        .filter(|(name, _)| !name.starts_with('#'))
        .map(|(name, value)| match name {
            "shared_preload_libraries" => (name.to_owned(), format!("howdah,{value}")),
            _ => (name.to_owned(), value.to_owned()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(answer: &str) -> Module {
        Module::parse(Path::new("/pg"), Path::new("/pg/contrib/one"), answer)
    }

    #[test]
    fn a_module_has_the_tests_that_make_tells() {
        let one =
            module("a b\nc\n--temp-config ../../contrib/one/one.conf\n--load-extension=one\none\n");
        assert_eq!(
            one.test_names().collect::<Vec<_>>(),
            ["one/a", "one/b", "one/c"]
        );
        let kinds: Vec<Kind> = one.suites().iter().map(|suite| suite.kind).collect();
        assert_eq!(kinds, [Kind::Regress, Kind::Isolation]);
        let loaded = one
            .suites()
            .iter()
            .map(|suite| suite.extensions_to_load().count())
            .collect::<Vec<_>>();
        assert_eq!(loaded, [0, 1]);
        assert_eq!(
            one.temp_config(),
            Some("/pg/contrib/one/../../contrib/one/one.conf".into())
        );
        assert!(!one.is_built());
    }

    #[test]
    fn a_module_without_tests_has_no_suites() {
        let none = module("\n\n\n\n\n");
        assert!(none.suites().is_empty() && none.temp_config().is_none() && none.is_built());
    }

    #[test]
    fn the_extension_is_preloaded_beside_a_modules_own_library() {
        let text = "# comment = no\nshared_preload_libraries = 'pg_stat_statements'\n\nwal_level = logical\n";
        let expected = [
            ("shared_preload_libraries", "howdah,pg_stat_statements"),
            ("wal_level", "logical"),
        ];
        assert_eq!(
            parse_settings(text),
            expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
}
