//! `CALL howdah.compact(relation)`.
//!
//! Moves everything that can be moved now, however recently it was written: a vacuum makes pages
//! all-visible first, another one removes the moved versions afterwards and truncates the hot
//! side. Commits as it goes, so it cannot run inside a transaction block.

use howdah_bridge::relation::{OpenRelation, name_of};
use pgrx::{PgSqlErrorCode, pg_guard, pg_sys};

use super::left_behind::left_behind;
use super::policy;
use super::progress::{Phase, Progress};
use super::shared;
use super::table::{Task, compact};
use super::transactions::Transactions;
use super::vacuum::{freeze_cold_store, vacuum};
use crate::am;
use crate::errors::refuse;

#[unsafe(no_mangle)]
extern "C" fn pg_finfo_howdah_compact() -> *const pg_sys::Pg_finfo_record {
    static INFO: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &INFO
}

#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn howdah_compact(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the call interface passes one regclass; the procedure is strict by its own check.
    unsafe {
        let argument = &*(*fcinfo).args.as_ptr();
        if argument.isnull {
            refuse(
                PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
                "relation must not be null".to_owned(),
                None,
            );
        }
        let table = pg_sys::Oid::from(argument.value.value() as u32);
        refuse_transaction_block((*fcinfo).context);
        let horizon = check_table(table);
        pg_sys::SPI_connect_ext(pg_sys::SPI_OPT_NONATOMIC as i32);
        Transactions::Procedure.commit();
        let progress = Progress::start(table);
        vacuum(table, true);
        Transactions::Procedure.commit();
        let mut policy = policy::of(table);
        policy.min_rows = 1;
        let task = Task {
            table,
            policy,
            quiet: None,
            patient: true,
        };
        let tally = compact(&task, Transactions::Procedure, &progress);
        if tally.moved_rows > 0 {
            progress.phase(Phase::Vacuuming);
            vacuum(table, true);
            Transactions::Procedure.commit();
        }
        freeze_cold_store(table, true);
        Transactions::Procedure.commit();
        let left = if tally.moved_rows == 0 {
            left_behind(table, horizon)
        } else {
            None
        };
        Transactions::Procedure.commit();
        drop(progress);
        shared::forget_failure(table);
        if let Some(left) = left {
            left.tell();
        }
        pg_sys::SPI_finish();
        pg_sys::Datum::from(0)
    }
}

unsafe fn refuse_transaction_block(context: *mut pg_sys::Node) {
    // SAFETY: CALL passes a CallContext; a plain function call passes none.
    let atomic = unsafe {
        context.is_null()
            || (*context).type_ != pg_sys::NodeTag::T_CallContext
            || (*context.cast::<pg_sys::CallContext>()).atomic
    };
    if atomic {
        refuse(
            PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
            "CALL howdah.compact cannot run inside a transaction block".to_owned(),
            Some(
                "It commits after each row group. Call it on its own, outside BEGIN … COMMIT and functions."
                    .to_owned(),
            ),
        );
    }
}

/// Raises an ERROR unless the current user may maintain the table and it is ours. Its horizon of dead rows.
unsafe fn check_table(table: pg_sys::Oid) -> pg_sys::TransactionId {
    // SAFETY: catalog lookups; the relation is opened with a lock that any reader takes.
    unsafe {
        let rel = OpenRelation::open(table, pg_sys::AccessShareLock);
        let name = name_of(rel.raw());
        let may = pg_sys::pg_class_aclcheck(
            table,
            pg_sys::GetUserId(),
            pg_sys::AclMode::from(pg_sys::ACL_MAINTAIN),
        );
        if may != pg_sys::AclResult::ACLCHECK_OK {
            refuse(
                PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for table {name}"),
                None,
            );
        }
        if !am::is_howdah(rel.raw()) {
            refuse(
                PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
                format!("\"{name}\" is not a howdah table"),
                hint_for(rel.raw(), &name),
            );
        }
        pg_sys::GetOldestNonRemovableTransactionId(rel.raw())
    }
}

/// What to do with a relation that is not a howdah table.
unsafe fn hint_for(rel: pg_sys::Relation, name: &str) -> Option<String> {
    // SAFETY: the relation is open.
    let (kind, is_catalog) = unsafe {
        (
            (*(*rel).rd_rel).relkind as u8,
            pg_sys::IsCatalogRelation(rel),
        )
    };
    match kind {
        pg_sys::RELKIND_PARTITIONED_TABLE => {
            Some("Rows are in its partitions: compact these.".to_owned())
        }
        pg_sys::RELKIND_RELATION | pg_sys::RELKIND_MATVIEW if !is_catalog => Some(format!(
            "Make it one with SELECT howdah.adopt('{name}') or ALTER TABLE … SET ACCESS METHOD howdah."
        )),
        _ => None,
    }
}
