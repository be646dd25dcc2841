//! What a query, its relation and its conditions say that the engine must know.
//!
//! Every field of PostgreSQL's structures is named here, none by `..`: a field that a later version
//! adds fails to compile until it is read, or shown to decide nothing. What is read elsewhere is
//! bound to `_` with the place.

use pgrx::pg_sys;

use super::reason::Reason;

/// Why the engine cannot be asked, if the query is of a kind that it does not know. Its groups,
/// order and limit are read by [`super::analysis`].
pub(super) fn declined_query(query: &pg_sys::Query) -> Option<Reason> {
    let pg_sys::Query {
        commandType: command,
        resultRelation: result,
        utilityStmt: utility,
        mergeActionList: merge_actions,
        mergeTargetRelation: merge_target,
        mergeJoinCondition: merge_condition,
        onConflict: on_conflict,
        returningList: returning,
        withCheckOptions: checks,
        hasTargetSRFs: returns_sets,
        hasForUpdate: has_for_update,
        rowMarks: row_marks,
        groupingSets: grouping_sets,
        setOperations: set_operations,
        // Of groups, distinct and first rows, and of what is above them.
        hasAggs: _,
        hasWindowFuncs: _,
        hasDistinctOn: _,
        targetList: _,
        groupClause: _,
        havingQual: _,
        windowClause: _,
        distinctClause: _,
        sortClause: _,
        limitOffset: _,
        limitCount: _,
        limitOption: _,
        // Of grouping sets only.
        groupDistinct: _,
        // Expressions are looked into one by one; the planner has replaced references to groups.
        // Subqueries and CTEs are other inputs than the one relation that is read here.
        hasSubLinks: _,
        hasGroupRTE: _,
        hasRecursive: _,
        hasModifyingCTE: _,
        cteList: _,
        rtable: _,
        jointree: _,
        // Conditions of row security are among those of the relation, with their levels; the
        // executor checks rights.
        hasRowSecurity: _,
        rteperminfos: _,
        // Of INSERT and RETURNING, which are declined above.
        override_: _,
        returningOldAlias: _,
        returningNewAlias: _,
        // Where the query comes from, and what depends on it.
        type_: _,
        querySource: _,
        queryId: _,
        canSetTag: _,
        isReturn: _,
        constraintDeps: _,
        stmt_location: _,
        stmt_len: _,
    } = query;
    let changes = [
        *command != pg_sys::CmdType::CMD_SELECT,
        *result != 0 || *merge_target != 0,
        !utility.is_null() || !merge_actions.is_null() || !merge_condition.is_null(),
        !on_conflict.is_null() || !returning.is_null() || !checks.is_null(),
    ];
    let declined = [
        (changes.contains(&true), Reason::NotASelect),
        (!set_operations.is_null(), Reason::NotATable),
        (!grouping_sets.is_null(), Reason::GroupingSets),
        (!row_marks.is_null() || *has_for_update, Reason::RowMarks),
        (*returns_sets, Reason::SetReturningFunction),
    ];
    first_that_holds(declined)
}

/// Why the engine cannot be asked, if a relation of a query is not a table that is read as it is.
pub(super) fn declined_relation(entry: &pg_sys::RangeTblEntry) -> Option<Reason> {
    let pg_sys::RangeTblEntry {
        rtekind: kind,
        relkind: relation_kind,
        tablesample: sample,
        lateral,
        // Which tables these are, `super::tables` finds.
        relid: _,
        inh: _,
        // The planner has locked the relation, and moved these conditions to those of the relation.
        rellockmode: _,
        securityQuals: _,
        security_barrier: _,
        // The executor checks rights.
        perminfoindex: _,
        // Of entries of other kinds.
        subquery: _,
        jointype: _,
        joinmergedcols: _,
        joinaliasvars: _,
        joinleftcols: _,
        joinrightcols: _,
        join_using_alias: _,
        functions: _,
        funcordinality: _,
        tablefunc: _,
        values_lists: _,
        ctename: _,
        ctelevelsup: _,
        self_reference: _,
        coltypes: _,
        coltypmods: _,
        colcollations: _,
        enrname: _,
        enrtuples: _,
        groupexprs: _,
        // Names.
        type_: _,
        alias: _,
        eref: _,
        inFromCl: _,
    } = entry;
    let is_table = *kind == pg_sys::RTEKind::RTE_RELATION
        && matches!(*relation_kind as u8, b'r' | b'm' | b'p');
    first_that_holds([
        (!is_table, Reason::NotATable),
        (!sample.is_null(), Reason::TableSample),
        (*lateral, Reason::Lateral),
    ])
}

/// A condition of a relation.
pub(super) struct Condition {
    pub clause: *mut pg_sys::Expr,
    /// Those of lower levels are evaluated first; zero for one that may be at any time.
    pub level: pg_sys::Index,
}

/// Reads a condition of the only relation of a query.
pub(super) fn condition(info: &pg_sys::RestrictInfo) -> Result<Condition, Reason> {
    let pg_sys::RestrictInfo {
        clause,
        pseudoconstant: is_constant,
        leakproof: is_leakproof,
        security_level: level,
        // Expressions are looked into one by one, OR clauses too.
        has_volatile: _,
        orclause: _,
        // Of joins: where a clause may be evaluated, of which there is one place, and by which
        // joins.
        is_pushed_down: _,
        can_join: _,
        has_clone: _,
        is_clone: _,
        num_base_rels: _,
        clause_relids: _,
        required_relids: _,
        incompatible_relids: _,
        outer_relids: _,
        left_relids: _,
        right_relids: _,
        mergeopfamilies: _,
        left_ec: _,
        right_ec: _,
        left_em: _,
        right_em: _,
        outer_is_left: _,
        hashjoinoperator: _,
        left_hasheqoperator: _,
        right_hasheqoperator: _,
        // Estimates, and where the clause comes from.
        eval_cost: _,
        norm_selec: _,
        outer_selec: _,
        scansel_cache: _,
        left_bucketsize: _,
        right_bucketsize: _,
        left_mcvfreq: _,
        right_mcvfreq: _,
        type_: _,
        rinfo_serial: _,
        parent_ec: _,
    } = info;
    match is_constant {
        true => Err(Reason::ConstantCondition),
        false => Ok(Condition {
            clause: *clause,
            level: if *is_leakproof { 0 } else { *level },
        }),
    }
}

fn first_that_holds<const N: usize>(declined: [(bool, Reason); N]) -> Option<Reason> {
    let found = declined.into_iter().find(|(holds, _)| *holds);
    found.map(|(_, reason)| reason)
}
