//! The tuples that a sequential scan has still to return of the page that it is on, taken as they
//! lie there.
//!
//! Applies to a scan of a heap table that returns all columns of all visible rows, where all
//! columns have a fixed width and the types that the target has. A tuple without NULLs that has all
//! attributes then has each of them at the same place. Other tuples are returned by the scan.
//!
//! Invariant: the scan is left as `heap_getnextslot` leaves it. It continues behind `rs_cindex`,
//! the place of the row that was returned last, on a page that it keeps pinned, with the rows that
//! it has found visible (`heapgettup_pagemode`).

use pgrx::pg_sys;

use crate::table::Table;

/// Where an attribute lies in the data of a tuple.
#[derive(Clone, Copy)]
struct Place {
    start_bytes: usize,
    len_bytes: usize,
}

/// What is known of the pages of a scan.
pub(super) struct Page {
    places: Vec<Place>,
    /// The length of a tuple's data.
    len_bytes: usize,
    /// The data of the tuples of a page, kept from page to page.
    data: Vec<*const u8>,
}

/// Tuples of one page, all of them without NULLs.
pub struct FixedTuples<'a> {
    places: &'a [Place],
    /// Each points to the tuple's data, as long as the places reach.
    data: &'a [*const u8],
}

impl FixedTuples<'_> {
    /// The number of tuples.
    pub fn row_count(&self) -> usize {
        self.data.len()
    }

    /// The number of attributes of each tuple.
    pub fn attribute_count(&self) -> usize {
        self.places.len()
    }

    /// The values of an attribute of `N` bytes, of the first tuples.
    ///
    /// # Panics
    /// If there is no such attribute, it has another length, or there are fewer tuples.
    #[inline]
    pub fn values<const N: usize>(
        &self,
        attribute: usize,
        row_count: usize,
    ) -> impl ExactSizeIterator<Item = [u8; N]> {
        let place = self.places[attribute];
        assert_eq!(place.len_bytes, N, "bytes of a value");
        // SAFETY: each tuple has the attribute at this place; its page is pinned.
        let value = move |&data: &*const u8| unsafe {
            data.add(place.start_bytes).cast::<[u8; N]>().read()
        };
        self.data[..row_count].iter().map(value)
    }

    /// The same as bytes, whatever their number is.
    ///
    /// # Panics
    /// If there is no such attribute, or there are fewer tuples.
    pub fn bytes(&self, attribute: usize, row_count: usize) -> impl Iterator<Item = &[u8]> {
        let place = self.places[attribute];
        // SAFETY: each tuple has the attribute at this place; its page is pinned.
        let value = move |&data: &*const u8| unsafe {
            std::slice::from_raw_parts(data.add(place.start_bytes), place.len_bytes)
        };
        self.data[..row_count].iter().map(value)
    }
}

impl Page {
    /// What is known of the pages of a node's scan; `None` if its rows do not lie there as the
    /// target needs them.
    ///
    /// # Safety
    /// A node that was initialised and has not run.
    pub(super) unsafe fn of(node: *mut pg_sys::PlanState, target: Table<'_>) -> Option<Page> {
        // SAFETY: the node's tag tells its kind; the scan's relation is open and locked.
        unsafe {
            let is_whole = (*node).type_ == pg_sys::NodeTag::T_SeqScanState
                && (*node).qual.is_null()
                && (*node).ps_ProjInfo.is_null();
            if !is_whole {
                return None;
            }
            let relation = (*node.cast::<pg_sys::SeqScanState>()).ss.ss_currentRelation;
            if relation.is_null()
                || !std::ptr::eq((*relation).rd_tableam, pg_sys::GetHeapamTableAmRoutine())
            {
                return None;
            }
            places_of(Table::from_raw(relation), target)
        }
    }

    /// The tuples behind the row that the scan has returned last, up to one that is not plain;
    /// `None` if there are none.
    ///
    /// # Safety
    /// The scan that [`Page::of`] was given, which has returned a row.
    pub(super) unsafe fn rest_of(
        &mut self,
        node: *mut pg_sys::PlanState,
    ) -> Option<FixedTuples<'_>> {
        // SAFETY: as for this function. In page mode the page is pinned, and line pointers of
        // visible rows are normal and stay so.
        unsafe {
            let scan = scan_of(node);
            if (*scan).rs_base.rs_flags & pg_sys::ScanOptions::SO_ALLOW_PAGEMODE == 0
                || !(*scan).rs_inited
            {
                return None;
            }
            let (from, to) = ((*scan).rs_cindex + 1, (*scan).rs_ntuples);
            if from >= to {
                return None;
            }
            let visible = &raw const (*scan).rs_vistuples;
            let visible = std::slice::from_raw_parts(
                visible.cast::<pg_sys::OffsetNumber>().add(from as usize),
                (to - from) as usize,
            );
            let page = pg_sys::BufferGetPage((*scan).rs_cbuf);
            let pointers = (&raw const (*page.cast::<pg_sys::PageHeaderData>()).pd_linp)
                .cast::<pg_sys::ItemIdData>();
            self.data.clear();
            for &offset in visible {
                let item = pointers.add(usize::from(offset).wrapping_sub(1));
                let header = page.add((*item).lp_off() as usize);
                match self.data_of(header.cast(), (*item).lp_len() as usize) {
                    Some(data) => self.data.push(data),
                    None => break,
                }
            }
        }
        (!self.data.is_empty()).then_some(FixedTuples {
            places: &self.places,
            data: &self.data,
        })
    }

    /// The data of a tuple that has every attribute at its place.
    ///
    /// # Safety
    /// A tuple of this length.
    #[inline]
    unsafe fn data_of(&self, header: pg_sys::HeapTupleHeader, len: usize) -> Option<*const u8> {
        // SAFETY: as for this function.
        unsafe {
            let has_nulls = u32::from((*header).t_infomask) & pg_sys::HEAP_HASNULL != 0;
            let count = u32::from((*header).t_infomask2) & pg_sys::HEAP_NATTS_MASK;
            let start = usize::from((*header).t_hoff);
            let is_plain =
                !has_nulls && count as usize >= self.places.len() && len >= start + self.len_bytes;
            is_plain.then(|| header.cast::<u8>().add(start).cast_const())
        }
    }

    /// Lets the scan go on behind the first tuples of those that [`Page::rest_of`] has returned,
    /// and counts these in the table's statistics, as the scan counts its own.
    ///
    /// # Safety
    /// As for [`Page::rest_of`], which was called last.
    pub(super) unsafe fn pass_over(&mut self, node: *mut pg_sys::PlanState, rows: usize) {
        assert!(rows <= self.data.len(), "rows of a page");
        if rows == 0 {
            return;
        }
        // SAFETY: as for this function; so many rows follow.
        unsafe {
            let scan = scan_of(node);
            (*scan).rs_cindex += rows as u32;
            Table::from_raw((*scan).rs_base.rs_rd).count_rows_read(rows as u64);
        }
    }
}

/// # Safety
/// The node of a sequential scan of a heap, which has returned a row.
unsafe fn scan_of(node: *mut pg_sys::PlanState) -> *mut pg_sys::HeapScanDescData {
    // SAFETY: as for this function: the scan has begun.
    unsafe {
        let scan = (*node.cast::<pg_sys::SeqScanState>()).ss.ss_currentScanDesc;
        scan.cast()
    }
}

/// Where the attributes of the tuples of `source` lie, if those of `target` have the same types
/// and all have a fixed width.
fn places_of(source: Table<'_>, target: Table<'_>) -> Option<Page> {
    let (from, to) = (
        source.descriptor().attributes(),
        target.descriptor().attributes(),
    );
    if from.len() != to.len() || from.is_empty() {
        return None;
    }
    let mut forms = Vec::with_capacity(from.len());
    for (attribute, same) in from.iter().zip(to) {
        let is_dropped = attribute.attisdropped || same.attisdropped;
        if is_dropped || attribute.atttypid != same.atttypid || attribute.attlen != same.attlen {
            return None;
        }
        let len_bytes = usize::try_from(attribute.attlen).ok()?;
        forms.push((len_bytes, alignment(attribute.attalign as u8)?));
    }
    Some(laid_out(&forms))
}

/// The places of attributes of these lengths and alignments, in bytes, in a tuple without NULLs.
fn laid_out(forms: &[(usize, usize)]) -> Page {
    let mut end_bytes = 0usize;
    let places = forms.iter().map(|&(len_bytes, alignment_bytes)| {
        let start_bytes = end_bytes.next_multiple_of(alignment_bytes);
        end_bytes = start_bytes + len_bytes;
        Place {
            start_bytes,
            len_bytes,
        }
    });
    Page {
        places: places.collect(),
        len_bytes: end_bytes,
        data: Vec::new(),
    }
}

/// The bytes to which an attribute with this `attalign` is aligned.
fn alignment(letter: u8) -> Option<usize> {
    match letter {
        pg_sys::TYPALIGN_CHAR => Some(1),
        pg_sys::TYPALIGN_SHORT => Some(2),
        pg_sys::TYPALIGN_INT => Some(4),
        pg_sys::TYPALIGN_DOUBLE => Some(8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_lie_behind_each_other_at_multiples_of_their_alignment() {
        let page = laid_out(&[(1, 1), (8, 8), (2, 2), (4, 4), (16, 1), (1, 1)]);
        let starts: Vec<_> = page.places.iter().map(|place| place.start_bytes).collect();
        assert_eq!(starts, [0, 8, 16, 20, 24, 40]);
        assert_eq!(page.len_bytes, 41, "nothing follows the last one");
    }

    #[test]
    fn every_letter_of_pg_type_has_its_alignment() {
        let bytes = [b'c', b's', b'i', b'd'].map(alignment);
        assert_eq!(bytes, [Some(1), Some(2), Some(4), Some(8)]);
        assert_eq!(alignment(b'x'), None);
    }
}
