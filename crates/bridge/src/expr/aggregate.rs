//! Calls of aggregate functions.

use std::ffi::CStr;

use pgrx::{PgList, pg_sys};

use super::kind::is_restricted;
use super::{Aggregate, Kind, Node};
use crate::upper::Reason;

/// `AGGKIND_NORMAL` of `catalog/pg_aggregate_d.h`
const NORMAL_AGGREGATE: std::ffi::c_char = b'n' as std::ffi::c_char;

/// How an argument's type is spelled in an aggregate's name.
fn type_name(oid: pg_sys::Oid) -> Option<&'static str> {
    Some(match oid {
        pg_sys::BOOLOID => "bool",
        pg_sys::INT2OID => "int2",
        pg_sys::INT4OID => "int4",
        pg_sys::INT8OID => "int8",
        pg_sys::FLOAT4OID => "float4",
        pg_sys::FLOAT8OID => "float8",
        pg_sys::NUMERICOID => "numeric",
        pg_sys::DATEOID => "date",
        pg_sys::TIMEOID => "time",
        pg_sys::TIMESTAMPOID => "timestamp",
        pg_sys::TIMESTAMPTZOID => "timestamptz",
        pg_sys::TEXTOID => "text",
        pg_sys::BYTEAOID => "bytea",
        pg_sys::UUIDOID => "uuid",
        pg_sys::ANYOID => "any",
        _ => return None,
    })
}

/// # Safety
/// The aggregate outlives the result.
pub(super) unsafe fn aggregate<'a>(call: &pg_sys::Aggref) -> Kind<'a> {
    let pg_sys::Aggref {
        aggfnoid: function,
        inputcollid: collation,
        aggdirectargs: direct_arguments,
        args: arguments,
        aggorder: order,
        aggdistinct: distinct,
        aggfilter: filter,
        aggvariadic: is_variadic,
        aggkind: kind,
        agglevelsup: levels_up,
        aggsplit: split,
        // The function tells its types, and how many arguments it has.
        aggtype: _,
        aggtranstype: _,
        aggargtypes: _,
        aggstar: _,
        // What reads the result tells it.
        aggcollid: _,
        // Of ORDER BY and DISTINCT, which are declined.
        aggpresorted: _,
        // The numbers of PostgreSQL's own states.
        aggno: _,
        aggtransno: _,
        xpr: _,
        location: _,
    } = *call;
    let foreign = |how| Kind::Other(Reason::ForeignAggregate(function, how));
    let unlike = [
        (
            function.to_u32() >= pg_sys::FirstGenbkiObjectId,
            "is not built in",
        ),
        (is_restricted(function), "has privileges of its own"),
        (
            kind != NORMAL_AGGREGATE || !direct_arguments.is_null(),
            "is of an ordered set",
        ),
        (!distinct.is_null(), "has DISTINCT"),
        (!order.is_null(), "has ORDER BY"),
        (is_variadic, "is variadic"),
        (levels_up != 0, "belongs to an outer query"),
        (
            split != pg_sys::AggSplit::AGGSPLIT_SIMPLE,
            "is computed in parts",
        ),
    ];
    if let Some((_, how)) = unlike.into_iter().find(|(is_so, _)| *is_so) {
        return foreign(how);
    }
    // SAFETY: lists of target entries; a function's declared argument types lie in the syscache.
    unsafe {
        let entries = PgList::<pg_sys::TargetEntry>::from_pg(arguments);
        if entries.iter_ptr().any(|entry| (*entry).resjunk) {
            return foreign("has other arguments than are given to it");
        }
        let arguments: Vec<_> = (entries.iter_ptr())
            .map(|entry| Node::of((*entry).expr.cast()))
            .collect();
        let (mut declared, mut count) = (std::ptr::null_mut(), 0);
        pg_sys::get_func_signature(function, &mut declared, &mut count);
        if arguments.len() > 1 {
            return foreign("has several arguments");
        }
        let declared = (0..count as usize).map(|i| *declared.add(i));
        let mut types = Vec::new();
        for oid in declared {
            let Some(name) = type_name(oid) else {
                return Kind::Other(Reason::AggregateOf(function, oid));
            };
            types.push(name);
        }
        let name = pg_sys::get_func_name(function);
        if name.is_null() {
            return foreign("is gone");
        }
        let name = CStr::from_ptr(name).to_string_lossy();
        Kind::Aggregate(Aggregate {
            name: format!("{name}({})", types.join(",")),
            argument: arguments.first().copied(),
            filter: (!filter.is_null()).then(|| Node::of(filter.cast())),
            collation,
        })
    }
}
