//! Why a query, or a part of one, is left to PostgreSQL's own plan.

use pgrx::pg_sys::{self, Oid};

use super::expr::name_of_type;
use crate::names;

/// The reason why a query is left to PostgreSQL. Each is created where planning declines.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A setting switches the engine off.
    SettingOff,
    /// No group, aggregate, DISTINCT, or ORDER BY with LIMIT.
    PlainRows,
    Join,
    /// A function, a subquery, a CTE, a set operation.
    NotATable,
    TableSample,
    Lateral,
    RowMarks,
    GroupingSets,
    WindowFunctions,
    SetReturningFunction,
    DistinctOn,
    SortWithoutLimit,
    /// LIMIT or OFFSET that is not constant, or WITH TIES.
    Limit,
    /// A sort operator outside of the default operator class.
    SortOperator,
    /// Groups are told apart by an operator that is not the type's default equality.
    GroupOperator,
    /// A statement that changes rows.
    NotASelect,
    /// A condition that no row can pass.
    NoRows,
    /// A condition that must see no row which those of row security, or of a security barrier,
    /// exclude.
    RowSecurity,
    /// A condition without columns, by which the scan may be avoided altogether.
    ConstantCondition,
    /// A group key without columns.
    ConstantKey,
    /// A column outside of aggregates that is not a group key.
    NotGrouped,
    /// A partition or child of this name is neither howdah nor heap.
    Child(Oid),
    /// Another extension supplies rows of this table.
    SuppliedElsewhere(Oid),
    /// No table has cold rows.
    NoColdRows,
    /// A function of this `prosrc` is not known.
    Function(String),
    /// An expression with a volatile function.
    Volatile,
    /// A subquery in an expression.
    Subplan,
    /// A function that is volatile, not strict, or not built in.
    ForeignFunction(Oid),
    /// A function that has rights of its own.
    RestrictedFunction(Oid),
    /// An aggregate of this name and these arguments is not known.
    Aggregate(String),
    /// An aggregate of this name that is called in this way, or is of this kind.
    ForeignAggregate(Oid, &'static str),
    /// An aggregate of this name over a type that is not vectorized.
    AggregateOf(Oid, Oid),
    /// `GROUPING`.
    Grouping,
    /// A function or aggregate that a setting for tests disables.
    Disabled(String),
    /// Arguments of this function have other types than its kernel takes.
    Arguments(String),
    Type(Oid),
    /// An operation on text depends on its collation.
    Collation,
    /// A system column, or a whole row.
    SystemColumn,
    /// An expression of another kind.
    Expression,
    /// More groups are expected than memory holds.
    TooManyGroups,
    /// PostgreSQL's own plan needs workers, or is of a kind that cannot be kept beside the
    /// engine's.
    NoPlanBeside,
    /// PostgreSQL's own plan is expected to take less.
    Cost,
}

/// Why a run was left to PostgreSQL's own plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Groups, or first rows, would take more memory than this.
    Memory { limit_bytes: usize },
    /// The data hold a value that is not vectorized, such as a numeric without a fixed scale.
    Value,
    /// A signal stopped it, which then did not end the statement.
    Signal,
    /// What the plan relies on has changed since.
    Changed,
}

impl Left {
    /// The reason in words, with the setting that would help.
    pub fn describe(&self) -> String {
        match self {
            Self::Memory { limit_bytes } => format!(
                "more memory would be needed than work_mem times hash_mem_multiplier, {} kB",
                limit_bytes / 1024
            ),
            Self::Value => "a value that is not vectorized".to_owned(),
            Self::Signal => "a signal stopped the run".to_owned(),
            Self::Changed => "the plan is older than what it reads".to_owned(),
        }
    }
}

impl Reason {
    /// The reason in words.
    pub fn describe(&self) -> String {
        let fixed = match self {
            Self::SettingOff => "howdah.vectorized is off",
            Self::PlainRows => "no groups, aggregates, DISTINCT, or ORDER BY with LIMIT",
            Self::Join => "a join",
            Self::NotATable => "reads something else than a table",
            Self::TableSample => "TABLESAMPLE",
            Self::Lateral => "a lateral reference",
            Self::RowMarks => "row locks",
            Self::GroupingSets => "grouping sets",
            Self::Grouping => "GROUPING",
            Self::WindowFunctions => "window functions",
            Self::SetReturningFunction => "a set-returning function",
            Self::DistinctOn => "DISTINCT ON",
            Self::SortWithoutLimit => "a sort without LIMIT",
            Self::Limit => "LIMIT or OFFSET is not constant",
            Self::SortOperator => "a sort operator that is not the type's default",
            Self::GroupOperator => "groups by an equality that is not the type's default",
            Self::NotASelect => "not a SELECT",
            Self::ConstantCondition => "a condition without columns",
            Self::NoRows => "a condition that no row can pass",
            Self::RowSecurity => "a condition that must come after those of row security",
            Self::ConstantKey => "a group key without columns",
            Self::NotGrouped => "a column that is neither grouped nor aggregated",
            Self::NoColdRows => "no cold rows",
            Self::Collation => "a collation that does not compare byte by byte",
            Self::Volatile => "a volatile function",
            Self::Subplan => "a subquery in an expression",
            Self::SystemColumn => "a system column or a whole row",
            Self::Expression => "an expression of an unknown kind",
            Self::TooManyGroups => "more groups are expected than memory holds",
            Self::NoPlanBeside => "PostgreSQL's own plan cannot be kept beside",
            Self::Cost => "PostgreSQL's own plan is expected to take less",
            Self::Child(table) => {
                return format!("{} is neither a howdah table nor heap", table_name(*table));
            }
            Self::SuppliedElsewhere(table) => {
                return format!("another extension reads {}", table_name(*table));
            }
            Self::Function(name) => return format!("function {name} is not vectorized"),
            Self::Aggregate(name) => return format!("aggregate {name} is not vectorized"),
            Self::Disabled(name) => return format!("{name} is disabled"),
            Self::Arguments(name) => return format!("arguments of {name} have other types"),
            Self::Type(oid) => return format!("type {}", name_of_type(*oid)),
            Self::ForeignFunction(oid) => {
                let name = function_name(*oid);
                return format!("function {name} is volatile, not strict, or not built in");
            }
            Self::RestrictedFunction(oid) => {
                return format!("function {} has privileges of its own", function_name(*oid));
            }
            Self::ForeignAggregate(oid, how) => {
                return format!("aggregate {} {how}", function_name(*oid));
            }
            Self::AggregateOf(oid, of) => {
                let of = name_of_type(*of);
                return format!("aggregate {} of type {of}", function_name(*oid));
            }
        };
        fixed.to_owned()
    }
}

/// The name of a relation; its OID if it is gone.
pub(super) fn table_name(table: Oid) -> String {
    // SAFETY: a catalog lookup; the name, or NULL, is a copy in the current memory context.
    unsafe { or_number(pg_sys::get_rel_name(table), table) }
}

fn function_name(function: Oid) -> String {
    // SAFETY: a catalog lookup; the name, or NULL, is a copy in the current memory context.
    unsafe { or_number(pg_sys::get_func_name(function), function) }
}

/// # Safety
/// `name` is NULL or a C string.
unsafe fn or_number(name: *mut std::ffi::c_char, oid: Oid) -> String {
    // SAFETY: as for this function.
    unsafe { names::owned(name) }.unwrap_or_else(|| oid.to_u32().to_string())
}
