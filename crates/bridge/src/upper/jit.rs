//! No JIT compilation for what the engine computes.
//!
//! The planner asks for compilation by the cost of the whole plan. A large part of that may be the
//! engine's, of which nothing can be compiled, while loading the compiler takes longer than many of
//! its queries. So the decision is made again for the rest of the plan.

use pgrx::{PgList, pg_sys};

use super::is_of;

/// Takes from a finished plan what it does not ask for without the engine's nodes.
///
/// # Safety
/// A plan that is not used yet.
pub(super) unsafe fn settle(planned: *mut pg_sys::PlannedStmt) {
    // SAFETY: as for this function; settings are read.
    unsafe {
        if (*planned).jitFlags as u32 & pg_sys::PGJIT_PERFORM == 0 {
            return;
        }
        let subplans = PgList::<pg_sys::Plan>::from_pg((*planned).subplans);
        let plans = subplans.iter_ptr().chain([(*planned).planTree]);
        let by_engine: f64 = plans.map(|plan| cost_of_ours(plan)).sum();
        if by_engine == 0.0 {
            return;
        }
        let cost = (*(*planned).planTree).total_cost - by_engine;
        let kept = kept_flags(
            cost,
            pg_sys::jit_above_cost,
            pg_sys::jit_optimize_above_cost,
            pg_sys::jit_inline_above_cost,
        );
        (*planned).jitFlags &= kept as i32;
    }
}

/// The flags that a plan of this cost may have.
fn kept_flags(cost: f64, perform_above: f64, optimize_above: f64, inline_above: f64) -> u32 {
    let mut kept = u32::MAX;
    if cost <= perform_above {
        return pg_sys::PGJIT_NONE;
    }
    if cost <= optimize_above {
        kept &= !pg_sys::PGJIT_OPT3;
    }
    if cost <= inline_above {
        kept &= !pg_sys::PGJIT_INLINE;
    }
    kept
}

/// The cost of the engine's nodes in a plan.
///
/// # Safety
/// A finished plan, or NULL.
unsafe fn cost_of_ours(plan: *mut pg_sys::Plan) -> f64 {
    use pg_sys::NodeTag as Tag;
    if plan.is_null() {
        return 0.0;
    }
    // SAFETY: as for this function; the tag tells the type.
    unsafe {
        if (*plan).type_ == Tag::T_CustomScan && is_of((*plan.cast::<pg_sys::CustomScan>()).methods)
        {
            return (*plan).total_cost;
        }
        let (below, more) = match (*plan).type_ {
            Tag::T_Append => (
                (*plan).lefttree,
                (*plan.cast::<pg_sys::Append>()).appendplans,
            ),
            Tag::T_MergeAppend => {
                let plans = (*plan.cast::<pg_sys::MergeAppend>()).mergeplans;
                ((*plan).lefttree, plans)
            }
            Tag::T_SubqueryScan => {
                let subplan = (*plan.cast::<pg_sys::SubqueryScan>()).subplan;
                (subplan, std::ptr::null_mut())
            }
            _ => ((*plan).lefttree, std::ptr::null_mut()),
        };
        let more = PgList::<pg_sys::Plan>::from_pg(more);
        more.iter_ptr()
            .chain([below, (*plan).righttree])
            .map(|child| cost_of_ours(child))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_decides_by_the_thresholds() {
        let all = pg_sys::PGJIT_PERFORM | pg_sys::PGJIT_OPT3 | pg_sys::PGJIT_INLINE;
        let of_cost = |cost| kept_flags(cost, 100.0, 300.0, 500.0) & all;
        assert_eq!(of_cost(100.0), pg_sys::PGJIT_NONE);
        assert_eq!(of_cost(101.0), pg_sys::PGJIT_PERFORM);
        assert_eq!(of_cost(301.0), pg_sys::PGJIT_PERFORM | pg_sys::PGJIT_OPT3);
        assert_eq!(of_cost(501.0), all);
    }
}
