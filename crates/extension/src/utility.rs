//! What utility statements need done after them.
//!
//! A howdah table always has a TOAST relation: it is the cold store. CREATE TABLE asks the access
//! method and gets one; ALTER TABLE … SET ACCESS METHOD howdah asks the *old* access
//! method and creates none for a table that never needed one. It is created here, right after.
//! Until then such a table is all hot, so nothing is lost if the statement fails.
//! A table that leaves howdah by the same command loses its options.
//!
//! COPY TO of a table with cold rows is run as a query ([`howdah_bridge::client_rows`]).

use howdah_bridge::Oid;
use howdah_bridge::access_method::create_toast_relation;
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::snapshot::with_active;
use howdah_bridge::table::{LockMode, RelationKind, Table};
use howdah_bridge::transactions::end_command;
use howdah_bridge::utility::{self, Noted, Statement, Watcher};

use crate::am;
use crate::load;
use crate::options;
use crate::settings;
use crate::store::marks;
use crate::store::view::ColdView;

struct Around;

/// Installs the hook. Call once, from `_PG_init`.
pub fn register() {
    utility::register(&Around);
}

impl Watcher for Around {
    fn before(&self, statement: Statement<'_>) -> u64 {
        let load_serial = load::before_utility();
        match statement {
            // A template's files may come under names that were in use before.
            Statement::CreateDatabase => marks::forget(),
            Statement::SecurityLabel { provider } => {
                options::provider::before_security_label(provider);
            }
            _ => {}
        }
        load_serial
    }

    fn after(&self, noted: &Noted) {
        load::after_utility(noted.is_copy, noted.note);
        if let Some(table) = noted.altered {
            after_new_access_method(table);
        }
    }

    fn has_cold_rows(&self, table: Table<'_>) -> bool {
        settings::columnar_scan()
            && am::is_ours(table)
            && with_active(|snapshot| !ColdView::of(table, snapshot).is_empty())
    }
}

/// Gives a howdah table that has no TOAST relation one, and a table of another access method no
/// options. ALTER TABLE holds its lock on the table to the end of the transaction.
fn after_new_access_method(oid: Oid) {
    end_command();
    let Some(open) = OpenRelation::try_open(oid, LockMode::AccessShare as u32) else {
        return;
    };
    let table = open.table();
    let ours = am::is_ours(table);
    let lacks_store =
        ours && table.kind() != RelationKind::PartitionedTable && table.toast_oid().is_none();
    drop(open);
    if !ours {
        options::catalog::forget(oid);
    }
    if lacks_store {
        create_toast_relation(oid);
    }
}
