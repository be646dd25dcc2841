//! Which crate may use which, read from `cargo metadata`: dependencies only point downward.
//!
//! ```text
//!   extension ──► vector ──► columnar          cli, tests/server: SQL only
//!       ├───────► records
//!       └───────► bridge ──► pgrx
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const EXTENSION: &str = "howdah-extension";

/// Crates that know nothing of PostgreSQL.
const PURE: [&str; 3] = ["howdah-columnar", "howdah-records", "howdah-vector"];

/// Each crate of the workspace with what it names in its manifest.
struct Workspace {
    uses: BTreeMap<String, BTreeSet<String>>,
    /// Uses for tests and benches included.
    uses_anywhere: BTreeMap<String, BTreeSet<String>>,
}

impl Workspace {
    fn read() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
            .output()
            .expect("cargo runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let metadata: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
        let (mut uses, mut uses_anywhere) = (BTreeMap::new(), BTreeMap::new());
        for package in metadata["packages"].as_array().expect("packages") {
            let name = package["name"].as_str().expect("a name").to_owned();
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            let named = |with_dev: bool| -> BTreeSet<String> {
                let wanted = dependencies
                    .iter()
                    .filter(|one| with_dev || one["kind"] != "dev");
                wanted
                    .map(|one| one["name"].as_str().expect("a name").to_owned())
                    .collect()
            };
            uses.insert(name.clone(), named(false));
            uses_anywhere.insert(name, named(true));
        }
        Self {
            uses,
            uses_anywhere,
        }
    }

    /// Everything a crate of ours links by what it and the crates of ours under it name.
    fn reach(&self, name: &str) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut open = vec![name.to_owned()];
        while let Some(current) = open.pop() {
            for used in self.uses.get(&current).into_iter().flatten() {
                if reached.insert(used.clone()) {
                    open.push(used.clone());
                }
            }
        }
        reached
    }
}

fn is_ours(name: &&String) -> bool {
    name.starts_with("howdah-")
}

fn binds_postgres(name: impl AsRef<str>) -> bool {
    name.as_ref().starts_with("pgrx")
}

#[test]
fn pure_crates_know_nothing_of_postgres() {
    let workspace = Workspace::read();
    for name in PURE {
        let reached = workspace.reach(name);
        assert!(
            !reached.iter().any(binds_postgres),
            "{name} reaches pgrx: {reached:?}"
        );
        let ours: Vec<&String> = reached.iter().filter(is_ours).collect();
        assert!(
            ours.iter().all(|used| PURE.contains(&used.as_str())),
            "{name} uses {ours:?}"
        );
    }
    assert!(
        !workspace.reach("howdah-columnar").contains("howdah-vector"),
        "columnar lies under vector, not above it"
    );
    assert!(
        !workspace
            .reach("howdah-records")
            .iter()
            .any(|used| is_ours(&used)),
        "records use no other room"
    );
}

#[test]
fn the_bridge_uses_no_other_room() {
    let reached = Workspace::read().reach("howdah-bridge");
    assert_eq!(reached.iter().filter(is_ours).count(), 0, "{reached:?}");
    assert!(reached.iter().any(binds_postgres));
}

#[test]
fn nothing_uses_the_extension() {
    for (name, used) in Workspace::read().uses_anywhere {
        assert!(!used.contains(EXTENSION), "{name} uses the extension");
    }
}

#[test]
fn the_command_talks_sql_and_links_no_room() {
    let workspace = Workspace::read();
    for name in ["howdah-cli", "howdah-server-tests"] {
        let reached = workspace.reach(name);
        assert!(!reached.iter().any(binds_postgres), "{name} reaches pgrx");
        let ours: Vec<&String> = reached.iter().filter(is_ours).collect();
        assert!(
            ours.iter().all(|used| *used == "howdah-cli"),
            "{name} uses {ours:?}"
        );
    }
}

#[test]
fn only_the_bridge_and_the_extension_name_pgrx() {
    for (name, used) in Workspace::read().uses_anywhere {
        let may = name == "howdah-bridge" || name == EXTENSION;
        assert!(may || !used.iter().any(binds_postgres), "{name} names pgrx");
    }
}
