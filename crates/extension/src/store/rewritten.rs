//! The note of the last rewrite of a table as a whole.
//!
//! ```text
//!   id 8, seq 0        an ordinary tuple of the transaction that rewrote the table
//! ```
//!
//! A rewrite loses the links from a row's old place to its new one: those of moved hot rows, and
//! the forwards of merged groups. Serializable transactions follow these links to learn which
//! transaction has changed a row since it was moved ([`crate::am::serializable`]). A snapshot that
//! does not see the note was taken before the rewrite. Its transaction locks the relation instead,
//! and reads all marks that the snapshot may miss. A later rewrite writes a note of its own and
//! drops this one.

use std::ops::ControlFlow;

use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::{Birth, ColdStore};
use howdah_bridge::xid::CommandId;
use howdah_records::{Kind, RewriteNote};

const REWRITTEN_ID: u32 = Kind::RewriteNote.id();

/// Notes that the current transaction has written the store, which no other backend can see yet.
pub fn note(store: &ColdStore, cid: CommandId) {
    let transactional = Birth::Transactional;
    let payload = RewriteNote.encode();
    store.insert(REWRITTEN_ID, 0, &payload, cid, transactional, None);
}

/// Whether the table was rewritten by a transaction that the snapshot does not see.
pub fn is_unseen(store: &ColdStore, snapshot: Snapshot<'_>) -> bool {
    let mut unseen = false;
    store.visit(REWRITTEN_ID, 0..=0, &mut |shown| {
        // What cannot be read may tell of a rewrite that the snapshot does not see.
        let is_seen = RewriteNote::decode(shown.payload).is_ok() && shown.tuple.satisfies(snapshot);
        unseen |= !is_seen;
        ControlFlow::Continue(())
    });
    unseen
}
