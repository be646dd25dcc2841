//! Open relations as borrowed values.
//!
//! ```text
//!   Table<'a>        an open relation: a table, a TOAST relation or an index
//!   Descriptor<'a>   its attributes
//! ```
//!
//! The lifetime is that of the holder of the open relation: a guard
//! ([`crate::relation::OpenRelation`]), a store, or the executor's call that passes the relation.
//! The relcache keeps an open relation's entry at its address, and its descriptor until the end of
//! the transaction if it rebuilds them. Locks on the relation are the caller's duty, as in the
//! server's own functions.

use std::marker::PhantomData;
use std::ptr::NonNull;

use pgrx::pg_sys;

use crate::ffi::quiet;
use crate::relation;
use crate::xid::{SubTransactionId, Xid};

/// A table and the file of its main fork. Other contents, as after TRUNCATE or a rewrite, come with
/// another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableFile {
    pub table: pg_sys::Oid,
    /// As `Table::file_number` has it.
    pub number: u32,
}

/// Lock modes of a relation, from weak to strong: `LOCKMODE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum LockMode {
    /// No lock is taken: none is needed, or one is held already.
    None = pg_sys::NoLock,
    AccessShare = pg_sys::AccessShareLock,
    RowShare = pg_sys::RowShareLock,
    RowExclusive = pg_sys::RowExclusiveLock,
    ShareUpdateExclusive = pg_sys::ShareUpdateExclusiveLock,
    Share = pg_sys::ShareLock,
    ShareRowExclusive = pg_sys::ShareRowExclusiveLock,
    Exclusive = pg_sys::ExclusiveLock,
    AccessExclusive = pg_sys::AccessExclusiveLock,
}

impl LockMode {
    /// The server's own type.
    #[inline]
    pub const fn raw(self) -> pg_sys::LOCKMODE {
        self as u32 as pg_sys::LOCKMODE
    }
}

/// The kind of a relation: `pg_class.relkind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    Table,
    MaterializedView,
    PartitionedTable,
    /// A view, an index, a sequence, a foreign table, …
    Other,
}

impl RelationKind {
    /// The kind with this letter in the catalog.
    pub fn of(kind: std::ffi::c_char) -> RelationKind {
        match kind as u8 {
            pg_sys::RELKIND_RELATION => RelationKind::Table,
            pg_sys::RELKIND_MATVIEW => RelationKind::MaterializedView,
            pg_sys::RELKIND_PARTITIONED_TABLE => RelationKind::PartitionedTable,
            _ => RelationKind::Other,
        }
    }
}

/// A set of columns that a relation knows: `IndexAttrBitmapKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexedColumns {
    /// Those of unique indexes that a foreign key may refer to.
    Key,
    /// Those that keep an update from being HOT.
    HotBlocking,
    /// Those of summarizing indexes.
    Summarized,
    /// Those of the index that is the replica identity.
    ReplicaIdentity,
}

/// An attribute, a row of `pg_attribute`.
pub type Attribute = pg_sys::FormData_pg_attribute;

/// An open relation.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    raw: NonNull<pg_sys::RelationData>,
    open: PhantomData<&'a pg_sys::RelationData>,
}

impl<'a> Table<'a> {
    /// Borrows an open relation.
    ///
    /// # Safety
    /// `rel` is held open as long as the result and its copies are used.
    #[inline]
    pub unsafe fn from_raw(rel: pg_sys::Relation) -> Table<'a> {
        debug_assert!(!rel.is_null());
        Table {
            // SAFETY: an open relation is not NULL.
            raw: unsafe { NonNull::new_unchecked(rel) },
            open: PhantomData,
        }
    }

    /// The server's pointer, valid for `'a`.
    #[inline]
    pub fn raw(self) -> pg_sys::Relation {
        self.raw.as_ptr()
    }

    #[inline]
    fn data(&self) -> &pg_sys::RelationData {
        // SAFETY: open by the contract of `from_raw`. Fields are copied out at once.
        unsafe { self.raw.as_ref() }
    }

    #[inline]
    fn form(&self) -> &pg_sys::FormData_pg_class {
        // SAFETY: an open relation has its row of pg_class.
        unsafe { &*self.data().rd_rel }
    }

    #[inline]
    pub fn oid(self) -> pg_sys::Oid {
        self.data().rd_id
    }

    /// Its name, for messages.
    pub fn name(self) -> String {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { relation::name_of(self.raw()) }
    }

    /// Identifies the main fork's file in its tablespace: a new file has another number.
    #[inline]
    pub fn file_number(self) -> u32 {
        self.data().rd_locator.relNumber.to_u32()
    }

    /// The table and its present file.
    #[inline]
    pub fn file(self) -> TableFile {
        TableFile {
            table: self.oid(),
            number: self.file_number(),
        }
    }

    /// Its kind.
    pub fn kind(self) -> RelationKind {
        RelationKind::of(self.form().relkind)
    }

    /// Its access method; `None` for a relation without one.
    pub fn access_method(self) -> Option<pg_sys::Oid> {
        let oid = self.form().relam;
        (oid != pg_sys::InvalidOid).then_some(oid)
    }

    /// Whether it is a temporary table, whose pages are in memory of the session.
    pub fn is_temporary(self) -> bool {
        self.form().relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP
    }

    /// Whether it is a temporary table of another session.
    pub fn is_temporary_of_others(self) -> bool {
        self.is_temporary() && !self.data().rd_islocaltemp
    }

    /// Whether it is a system catalog, or its TOAST relation.
    pub fn is_catalog(self) -> bool {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { pg_sys::IsCatalogRelation(self.raw()) }
    }

    /// Database and relation, as lock tags identify them.
    #[inline]
    pub(crate) fn lock_name(self) -> pg_sys::LockRelId {
        self.data().rd_lockInfo.lockRelId
    }

    /// Whether this transaction has locked it in the mode of statements that change its rows.
    pub fn is_locked_for_changes(self) -> bool {
        let name = self.lock_name();
        let tag = pg_sys::LOCKTAG {
            locktag_field1: name.dbId.to_u32(),
            locktag_field2: name.relId.to_u32(),
            locktag_field3: 0,
            locktag_field4: 0,
            locktag_type: pg_sys::LockTagType::LOCKTAG_RELATION as u8,
            locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
        };
        // SAFETY: a lookup in this backend's own table of locks.
        unsafe { quiet::LockHeldByMe(&tag, LockMode::RowExclusive.raw(), false) }
    }

    /// The callbacks of its access method; NULL for a relation without rows.
    #[inline]
    pub(crate) fn routine(self) -> *const pg_sys::TableAmRoutine {
        self.data().rd_tableam
    }

    /// Whether an index keeps only summaries of ranges of blocks.
    ///
    /// # Panics
    /// If it is no index.
    pub fn is_summarizing_index(self) -> bool {
        let routine = self.data().rd_indam;
        assert!(!routine.is_null(), "an index has a routine");
        // SAFETY: an open index has its routine as long as it is open.
        unsafe { (*routine).amsummarizing }
    }

    /// Whether it is a system catalog, or in a system schema.
    pub fn is_system_class(self) -> bool {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { pg_sys::IsSystemClass(self.oid(), self.data().rd_rel) }
    }

    /// Its TOAST relation, if it has one.
    #[inline]
    pub fn toast_oid(self) -> Option<pg_sys::Oid> {
        let oid = self.form().reltoastrelid;
        (oid != pg_sys::InvalidOid).then_some(oid)
    }

    /// Whether changes of it survive a crash, and are WAL-logged for that.
    #[inline]
    pub fn is_permanent(self) -> bool {
        self.form().relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT
    }

    /// `RelationIsLogicallyLogged`, for tables of users.
    pub fn is_logically_logged(self) -> bool {
        // SAFETY: plain read of a setting.
        let wal_level = unsafe { pg_sys::wal_level };
        wal_level >= pg_sys::WalLevel::WAL_LEVEL_LOGICAL as i32 && self.is_permanent()
    }

    #[inline]
    pub fn descriptor(self) -> Descriptor<'a> {
        Descriptor {
            raw: self.data().rd_att,
            open: PhantomData,
        }
    }

    /// The rows and pages that the last VACUUM or ANALYZE has counted; `None` before the first one.
    pub fn counted(self) -> Option<(f32, pg_sys::BlockNumber)> {
        let form = self.form();
        (form.reltuples >= 0.0).then_some((form.reltuples, form.relpages as pg_sys::BlockNumber))
    }

    /// Whether the table has, or had, inheritance children.
    pub fn has_children(self) -> bool {
        self.form().relhassubclass
    }

    /// The subtransaction that made its present storage; 0 if that is committed.
    pub fn storage_subtransaction(self) -> SubTransactionId {
        // SAFETY: the relation is open.
        unsafe {
            match (*self.raw()).rd_newRelfilelocatorSubid {
                0 => (*self.raw()).rd_createSubid,
                made => made,
            }
        }
    }

    /// Blocks of the main fork.
    #[inline]
    pub fn main_fork_blocks(self) -> pg_sys::BlockNumber {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { relation::main_fork_blocks(self.raw()) }
    }

    /// Whether the main fork has the block, by the size that this process remembers. The relation
    /// is locked.
    #[inline]
    pub fn has_block(self, block: pg_sys::BlockNumber) -> bool {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { relation::has_block(self.raw(), block) }
    }

    /// Gives a table whose main fork is empty one empty page, see [`relation::ensure_first_page`].
    pub fn ensure_first_page(self) {
        // SAFETY: open by the contract of `from_raw`; an index has no empty main fork.
        unsafe { relation::ensure_first_page(self.raw()) }
    }

    /// The oldest transaction whose snapshot may need a row of the table.
    #[inline]
    pub fn horizon(self) -> Xid {
        // SAFETY: open by the contract of `from_raw`.
        Xid::from_raw(unsafe { pg_sys::GetOldestNonRemovableTransactionId(self.raw()) })
    }

    /// Whether every snapshot that may read the table sees a committed transaction as finished, by
    /// the test of heap's pruning.
    #[inline]
    pub fn is_removable_xid(self, xid: Xid) -> bool {
        // SAFETY: open by the contract of `from_raw`; the horizon is a variable of the server.
        unsafe {
            let horizon = pg_sys::GlobalVisTestFor(self.raw());
            !xid.is_normal() || pg_sys::GlobalVisTestIsRemovableXid(horizon, xid.raw())
        }
    }

    /// Counts rows that a scan has read, for `pg_stat_all_tables`.
    #[inline]
    pub fn count_rows_read(self, rows: u64) {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { relation::count_rows_read(self.raw(), rows) }
    }

    /// Counts rows that were fetched for an index, for `pg_stat_all_tables`.
    #[inline]
    pub fn count_rows_fetched(self, rows: u64) {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { relation::count_rows_fetched(self.raw(), rows) }
    }

    /// Counts a row that was deleted, for `pg_stat_all_tables`.
    #[inline]
    pub fn count_delete(self) {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { pg_sys::pgstat_count_heap_delete(self.raw()) }
    }

    /// Counts a row that was inserted, for `pg_stat_all_tables`.
    #[inline]
    pub fn count_insert(self) {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { pg_sys::pgstat_count_heap_insert(self.raw(), 1) }
    }

    /// The same, in a subtransaction that has counted an insert already.
    #[inline]
    pub fn count_another_insert(self) {
        // SAFETY: as for `count_insert`; what counts is there already.
        unsafe { crate::ffi::quiet::pgstat_count_heap_insert(self.raw(), 1) }
    }

    /// The same for so many of them.
    #[inline]
    pub fn count_more_inserts(self, rows: usize) {
        // SAFETY: as for `count_another_insert`.
        unsafe { crate::ffi::quiet::pgstat_count_heap_insert(self.raw(), rows as i64) }
    }

    /// Takes back that rows were counted as inserted.
    pub fn discount_inserts(self, rows: usize) {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { pg_sys::pgstat_count_heap_insert(self.raw(), -(rows as i64)) }
    }

    /// Whether it has indexes, or had some a moment ago.
    #[inline]
    pub fn has_indexes(self) -> bool {
        self.form().relhasindex
    }

    /// Whether the TID of an inserted row gets to an index or to an AFTER trigger at once.
    pub fn shows_places(self) -> bool {
        // SAFETY: open by the contract of `from_raw`, and with it its triggers.
        let triggers = unsafe { (*self.raw()).trigdesc.as_ref() };
        self.form().relhasindex || triggers.is_some_and(|triggers| triggers.trig_insert_after_row)
    }

    /// Whether AFTER triggers fire at the end of a statement that inserts rows.
    pub fn has_statement_triggers(self) -> bool {
        // SAFETY: open by the contract of `from_raw`, and with it its triggers.
        let triggers = unsafe { (*self.raw()).trigdesc.as_ref() };
        triggers.is_some_and(|triggers| triggers.trig_insert_after_statement)
    }

    /// Whether it is a partition of a partitioned table.
    #[inline]
    pub fn is_partition(self) -> bool {
        self.form().relispartition
    }

    /// Whether a standby, which has no rows of it, should not look for its files.
    pub fn is_empty_on_standby(self) -> bool {
        self.form().relpersistence as u8 == pg_sys::RELPERSISTENCE_UNLOGGED
            && crate::xid::in_recovery()
    }

    /// Whether expressions of the table's own, or of its columns' domains, are evaluated for each
    /// inserted row: functions in them may read the table.
    pub fn evaluates_for_inserts(self) -> bool {
        // SAFETY: open by the contract of `from_raw`; the constraints belong to the descriptor.
        let constraints = unsafe { (*(*self.raw()).rd_att).constr.as_ref() };
        let has_expressions = |constraints: &pg_sys::TupleConstr| {
            constraints.num_check > 0
                || constraints.has_generated_stored
                || constraints.has_generated_virtual
        };
        // A composite type may have a domain inside.
        let may_be_domain = |attribute: &Attribute| {
            // SAFETY: a look-up in the catalog; the type of a column exists.
            !attribute.attisdropped
                && matches!(
                    unsafe { pg_sys::get_typtype(attribute.atttypid) } as u8,
                    pg_sys::TYPTYPE_DOMAIN | pg_sys::TYPTYPE_COMPOSITE
                )
        };
        constraints.is_some_and(has_expressions)
            || self.descriptor().attributes().iter().any(may_be_domain)
    }

    /// Changes what heap has just counted as an insert to an update.
    #[inline]
    pub fn count_insert_as_update(self) {
        // SAFETY: open by the contract of `from_raw`; heap has counted a change by this
        // subtransaction already.
        unsafe {
            crate::ffi::quiet::pgstat_count_heap_insert(self.raw(), -1);
            crate::ffi::quiet::pgstat_count_heap_update(self.raw(), false, false);
        }
    }

    /// The attributes that logical decoding needs of a row's old version, counted from zero: those
    /// of the replica identity.
    pub fn decoded_columns(self) -> Vec<usize> {
        let identity = self.form().relreplident as u8;
        if identity == pg_sys::REPLICA_IDENTITY_NOTHING {
            return Vec::new();
        }
        if identity == pg_sys::REPLICA_IDENTITY_FULL {
            let desc = self.descriptor();
            let is_stored = |&i: &usize| {
                let attribute = desc.attribute(i);
                !attribute.attisdropped
                    && attribute.attgenerated as u8 != pg_sys::ATTRIBUTE_GENERATED_VIRTUAL
            };
            return (0..desc.attribute_count()).filter(is_stored).collect();
        }
        let numbers = self.indexed_columns(IndexedColumns::ReplicaIdentity);
        let from_zero = |number: i32| usize::try_from(number - 1).ok();
        numbers.into_iter().filter_map(from_zero).collect()
    }

    /// The numbers of the columns in a set that the relation knows, ascending. Those of system
    /// columns are negative, and 0 is the whole row.
    pub fn indexed_columns(self, columns: IndexedColumns) -> Vec<i32> {
        use crate::ffi::quiet;
        use pg_sys::IndexAttrBitmapKind as Kind;
        let kind = match columns {
            IndexedColumns::Key => Kind::INDEX_ATTR_BITMAP_KEY,
            IndexedColumns::HotBlocking => Kind::INDEX_ATTR_BITMAP_HOT_BLOCKING,
            IndexedColumns::Summarized => Kind::INDEX_ATTR_BITMAP_SUMMARIZED,
            IndexedColumns::ReplicaIdentity => Kind::INDEX_ATTR_BITMAP_IDENTITY_KEY,
        };
        let data = self.data();
        let is_known = data.rd_attrsvalid && columns == IndexedColumns::Key;
        let known = is_known.then_some(data.rd_keyattr);
        // SAFETY: open by the contract of `from_raw`; a set of the relation's own is valid as long
        // as nothing processes invalidations, which nothing here does. A copy is ours to free.
        unsafe {
            let set = known.unwrap_or_else(|| pg_sys::RelationGetIndexAttrBitmap(self.raw(), kind));
            let mut numbers = Vec::new();
            let mut member = quiet::bms_next_member(set, -1);
            while member >= 0 {
                numbers.push(member + pg_sys::FirstLowInvalidHeapAttributeNumber);
                member = quiet::bms_next_member(set, member);
            }
            if known.is_none() {
                quiet::bms_free(set);
            }
            numbers
        }
    }
}

/// The attributes of an open relation.
#[derive(Clone, Copy)]
pub struct Descriptor<'a> {
    raw: pg_sys::TupleDesc,
    open: PhantomData<&'a pg_sys::TupleDescData>,
}

impl<'a> Descriptor<'a> {
    /// Borrows a descriptor.
    ///
    /// # Safety
    /// `desc` is a valid descriptor as long as the result, its copies and its attributes are used.
    #[inline]
    pub unsafe fn from_raw(desc: pg_sys::TupleDesc) -> Descriptor<'a> {
        Descriptor {
            raw: desc,
            open: PhantomData,
        }
    }

    /// Its address: equal for the same descriptor, and possibly for one that replaced it.
    #[inline]
    pub fn address(self) -> usize {
        self.raw.addr()
    }

    /// The server's pointer, valid for `'a`.
    #[inline]
    pub fn raw(self) -> pg_sys::TupleDesc {
        self.raw
    }

    /// The number of attributes, including dropped ones.
    #[inline]
    pub fn attribute_count(self) -> usize {
        // SAFETY: valid by the contract of `from_raw`.
        unsafe { (*self.raw).natts as usize }
    }

    /// All of them, as `TupleDescAttr` finds them.
    #[inline]
    pub fn attributes(self) -> &'a [pg_sys::FormData_pg_attribute] {
        let count = self.attribute_count();
        // SAFETY: the descriptor is valid by the contract of `from_raw`. Its attributes lie one
        // behind the other, behind as many compact ones.
        unsafe {
            let compact = (&raw const (*self.raw).compact_attrs).cast::<pg_sys::CompactAttribute>();
            std::slice::from_raw_parts(compact.add(count).cast(), count)
        }
    }

    /// An attribute, counted from zero.
    ///
    /// # Panics
    /// If there is no such attribute.
    #[inline]
    pub fn attribute(self, i: usize) -> &'a pg_sys::FormData_pg_attribute {
        &self.attributes()[i]
    }

    /// The value of rows that were stored before an attribute was added; `None` is NULL. It lives
    /// as long as the descriptor.
    ///
    /// # Panics
    /// If there is no such attribute.
    #[inline]
    pub fn missing_value(self, i: usize) -> Option<pg_sys::Datum> {
        assert!(i < self.attribute_count(), "no attribute {i}");
        let mut null = true;
        // SAFETY: as for `attribute`.
        let value = unsafe { pg_sys::getmissingattr(self.raw, i as i32 + 1, &mut null) };
        (!null).then_some(value)
    }
}
