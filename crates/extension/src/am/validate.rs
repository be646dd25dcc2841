//! Cold rows in the second scan of a concurrent index build.
//!
//! They come in strict TID order, after the hot rows ([`howdah_bridge::index_build`]).

use howdah_bridge::index_build::{self, ValidateIndex, Validation};
use howdah_bridge::indexes::is_brin;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::table_am::Routine;
use pgrx::PgMemoryContexts;

use super::build::columns_of;
use super::held_store;
use crate::cursor::ColdCursor;
use crate::store::view::ColdView;

pub(super) fn install(am: &mut Routine) {
    index_build::set_validate::<ColdRows>(am);
}

struct ColdRows;

impl ValidateIndex for ColdRows {
    fn validate(validation: &mut Validation<'_>, snapshot: Snapshot<'_>) {
        if is_brin(validation.index()) {
            return;
        }
        let table = validation.table();
        held_store::hold(table);
        let view = ColdView::of(table, snapshot);
        if view.is_empty() {
            return;
        }
        let cursor = ColdCursor::new(view, columns_of(table, validation.info()), None);
        // The cursor lives in the current memory context, so that an ERROR may jump over this
        // frame.
        let place = PgMemoryContexts::CurrentMemoryContext.leak_and_drop_on_delete(Some(cursor));
        // SAFETY: the context outlives the scan, and only this function knows the place.
        let place = unsafe { &mut *place };
        if let Some(cursor) = place {
            while let Some(row) = cursor.next(table) {
                howdah_bridge::check_for_interrupts!();
                if validation.lacks(row.tid()) {
                    cursor.store(table, validation.slot());
                    validation.insert(row.tid());
                }
            }
        }
        validation.slot().clear();
        if let Some(cursor) = place.take() {
            cursor.end();
        }
    }
}
