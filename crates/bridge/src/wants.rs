//! How many rows a plan takes of a scan: all of them, or as many as a node above it lets through.
//!
//! A hint: conditions and joins between may take more rows, a client that closes its cursor fewer.

use pgrx::pg_sys;

/// What the nodes above a scan want of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wants {
    /// The nearest Limit node above that no node between separates from it; NULL: none.
    limit: *const pg_sys::LimitState,
    /// The scans among which its rows are divided.
    shares: u32,
    /// No more than this in any case.
    most: u32,
}

impl Wants {
    pub(crate) const ALL: Wants = Wants::at_most(u32::MAX);
    /// As of a subquery that asks whether there is any row.
    pub(crate) const ONE: Wants = Wants::at_most(1);

    const fn at_most(most: u32) -> Wants {
        Wants {
            limit: std::ptr::null(),
            shares: 1,
            most,
        }
    }

    /// What a node wants of its children whose own rows are wanted like this.
    ///
    /// # Safety
    /// A started node, which lives as long as the result is used.
    pub(crate) unsafe fn of_children(self, node: *mut pg_sys::PlanState) -> Wants {
        use pg_sys::NodeTag::{
            T_AggState, T_HashState, T_LimitState, T_MergeAppendState, T_ModifyTableState,
            T_SortState,
        };
        // SAFETY: as for this function; a node's tag tells its type.
        unsafe {
            match (*node).type_ {
                T_LimitState => Wants {
                    limit: node.cast(),
                    ..Wants::ALL
                },
                T_SortState | T_AggState | T_HashState | T_ModifyTableState => Wants::ALL,
                T_MergeAppendState => {
                    let count = (*node.cast::<pg_sys::MergeAppendState>()).ms_nplans;
                    Wants {
                        shares: self.shares.saturating_mul(count.max(1) as u32),
                        ..self
                    }
                }
                _ => self,
            }
        }
    }

    /// What a join wants of its inner child for each outer row.
    ///
    /// # Safety
    /// As [`Wants::of_children`].
    pub(crate) unsafe fn of_inner(self, node: *mut pg_sys::PlanState) -> Wants {
        // SAFETY: as for this function; a node's tag tells its type.
        unsafe {
            if (*node).type_ != pg_sys::NodeTag::T_NestLoopState {
                return self;
            }
            let join = node.cast::<pg_sys::JoinState>();
            match (*join).single_match || (*join).jointype == pg_sys::JoinType::JOIN_ANTI {
                true => Wants::ONE,
                false => self,
            }
        }
    }

    /// How many rows are surely taken, that one among them which the scan has returned last.
    ///
    /// # Safety
    /// The plan lives, and runs.
    pub(crate) unsafe fn rows(self) -> u32 {
        if self.limit.is_null() {
            return self.most;
        }
        // SAFETY: as for this function.
        let limit = unsafe { &*self.limit };
        if limit.lstate == pg_sys::LimitStateCond::LIMIT_INITIAL {
            return 1;
        }
        if limit.noCount {
            return self.most;
        }
        // Once it has let that row through, it has counted it.
        let rest = limit.offset.saturating_add(limit.count) - limit.position;
        let rest = rest.clamp(0, i64::from(u32::MAX - 1)) as u32 + 1;
        match self.shares {
            1 => rest,
            // Of which scan the rows are is not known.
            shares => rest / shares + 1,
        }
        .min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_tells_how_many_rows_are_left() {
        let mut limit = pg_sys::LimitState {
            lstate: pg_sys::LimitStateCond::LIMIT_INITIAL,
            count: 30,
            offset: 10,
            ..Default::default()
        };
        let rows = |limit: &pg_sys::LimitState, shares| {
            let wants = Wants {
                limit,
                shares,
                ..Wants::ALL
            };
            // SAFETY: the node is there.
            unsafe { wants.rows() }
        };
        assert_eq!(rows(&limit, 1), 1);
        limit.lstate = pg_sys::LimitStateCond::LIMIT_INWINDOW;
        assert_eq!(rows(&limit, 1), 41);
        limit.position = 40;
        assert_eq!(rows(&limit, 1), 1);
        (limit.position, limit.offset) = (1, 0);
        assert_eq!(rows(&limit, 12), 3);
        limit.count = i64::MAX;
        assert_eq!(rows(&limit, 1), u32::MAX);
        limit.noCount = true;
        assert_eq!(rows(&limit, 12), u32::MAX);
        // SAFETY: no Limit is looked at.
        unsafe {
            assert_eq!(Wants::ALL.rows(), u32::MAX);
            assert_eq!(Wants::ONE.rows(), 1);
        }
    }
}
