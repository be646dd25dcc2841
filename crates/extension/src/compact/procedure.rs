//! `CALL howdah.compact(relation)`.
//!
//! Moves everything that can be moved now, however recently it was written: a vacuum makes pages
//! all-visible first, another one removes the moved versions afterwards and truncates the hot
//! side. Commits as it goes, so it cannot run inside a transaction block.

use howdah_bridge::procedure::{Call, with_transactions};
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::rights::may_maintain;
use howdah_bridge::table::{LockMode, RelationKind, Table};
use howdah_bridge::transactions::Transactions;
use howdah_bridge::xid::Xid;
use howdah_bridge::{Oid, procedure};
use pgrx::PgSqlErrorCode;

use super::left_behind::left_behind;
use super::policy;
use super::progress::{Phase, Progress};
use super::shared;
use super::table::compact;
use super::task::Task;
use super::vacuum::{freeze_cold_store, vacuum};
use crate::am;
use crate::errors::refuse;

const TX: Transactions = Transactions::Procedure;

procedure!(howdah_compact, pg_finfo_howdah_compact, call_compact);

fn call_compact(call: Call<'_>) {
    let Some(table) = call.oid_argument() else {
        refuse(
            PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            "relation must not be null".to_owned(),
            None,
        )
    };
    refuse_transaction_block(call.is_atomic());
    let horizon = check_table(table);
    with_transactions(|| compact_now(table, horizon));
}

fn compact_now(table: Oid, horizon: Xid) {
    TX.commit();
    let progress = Progress::start(table);
    vacuum(table, true);
    TX.commit();
    let mut policy = policy::of(table);
    policy.min_rows = 1;
    let task = Task {
        table,
        policy,
        quiet: None,
        patient: true,
    };
    let mut moved_rows = 0;
    loop {
        let tally = compact(&task, TX, &progress);
        moved_rows += tally.moved_rows;
        if tally.moved_rows > 0 {
            progress.phase(Phase::Vacuuming);
            vacuum(table, true);
            TX.commit();
        }
        if !tally.is_cut {
            break;
        }
    }
    freeze_cold_store(table, true);
    TX.commit();
    let left = match moved_rows {
        0 => left_behind(table, horizon),
        _ => None,
    };
    TX.commit();
    drop(progress);
    shared::forget_failure(table);
    if let Some(left) = left {
        left.tell();
    }
}

fn refuse_transaction_block(atomic: bool) {
    if atomic {
        refuse(
            PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
            "CALL howdah.compact cannot run inside a transaction block".to_owned(),
            Some(
                "It commits after each row group. Call it on its own, outside BEGIN ... COMMIT and functions."
                    .to_owned(),
            ),
        );
    }
}

/// Raises an ERROR unless the current user may maintain the table and it is ours. Its horizon of
/// dead rows.
fn check_table(oid: Oid) -> Xid {
    let Some(open) = OpenRelation::try_open(oid, LockMode::AccessShare as u32) else {
        refuse(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            format!("relation with OID {} does not exist", oid.to_u32()),
            None,
        )
    };
    let table = open.table();
    let name = table.name();
    if !may_maintain(oid) {
        refuse(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("permission denied for table {name}"),
            None,
        );
    }
    if !am::is_ours(table) {
        refuse(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{name}\" is not a howdah table"),
            hint_for(table, &name),
        );
    }
    table.horizon()
}

/// What to do with a relation that is not a howdah table.
fn hint_for(table: Table<'_>, name: &str) -> Option<String> {
    match table.kind() {
        RelationKind::PartitionedTable => {
            Some("Rows are in its partitions: compact these.".to_owned())
        }
        RelationKind::Table | RelationKind::MaterializedView if !table.is_catalog() => {
            Some(format!(
                "Make it one with SELECT howdah.adopt('{name}') or ALTER TABLE ... SET ACCESS METHOD howdah."
            ))
        }
        _ => None,
    }
}
