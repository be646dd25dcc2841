//! `howdah.check_schema`: whether CREATE EXTENSION may use the schema `howdah`.
//!
//! A role with CREATE on the database can make that schema before the extension comes, and put
//! functions and operators in it that match a caller's arguments better than the extension's.

use pgrx::{PgSqlErrorCode, Spi, pg_extern, pg_sys};

use crate::errors::refuse;

/// What lives in a schema and does not belong to an extension.
const STRANGER: &str = "
    SELECT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)
    FROM pg_catalog.pg_depend d
    WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
        AND d.refobjid OPERATOR(pg_catalog.=) $1
        AND d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_extension'::pg_catalog.regclass
        AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_depend e
            WHERE e.classid OPERATOR(pg_catalog.=) d.classid
                AND e.objid OPERATOR(pg_catalog.=) d.objid
                AND e.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
                AND e.deptype OPERATOR(pg_catalog.=) 'e')
    LIMIT 1";

/// Refuses a schema that neither the installing role nor a superuser owns, or that is not empty.
#[pg_extern(sql = false)]
fn check_schema() {
    // SAFETY: catalog lookups with NUL-terminated names; raises an ERROR where there is no
    // such schema.
    let (schema, role_exists) = unsafe {
        (
            pg_sys::get_namespace_oid(c"howdah".as_ptr(), false),
            pg_sys::get_role_oid(c"howdah".as_ptr(), true) != pg_sys::InvalidOid,
        )
    };
    let owner = owner_of(schema);
    // SAFETY: catalog lookups.
    if unsafe { owner != pg_sys::GetUserId() && !pg_sys::superuser_arg(owner) } {
        refuse(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            "schema \"howdah\" belongs to another role".into(),
            Some("Drop or rename it; CREATE EXTENSION makes its own.".into()),
        );
    }
    let stranger = Spi::get_one_with_args::<String>(STRANGER, &[schema.into()]);
    if let Ok(Some(stranger)) = stranger {
        refuse(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("schema \"howdah\" is not empty: it has {stranger}"),
            Some("Drop or rename it; CREATE EXTENSION makes its own.".into()),
        );
    }
    if role_exists {
        pgrx::ereport!(
            pgrx::PgLogLevel::WARNING,
            PgSqlErrorCode::ERRCODE_WARNING,
            "there is a role \"howdah\", whose tables would be created in schema \"howdah\"",
            "\"$user\" in search_path means that schema for it: ALTER ROLE howdah SET search_path = public, or rename the role."
        );
    }
}

fn owner_of(schema: pg_sys::Oid) -> pg_sys::Oid {
    let none = pg_sys::Datum::from(0);
    let namespaceoid = pg_sys::SysCacheIdentifier::NAMESPACEOID as i32;
    // SAFETY: the tuple is released after its owner was read.
    unsafe {
        let key = pg_sys::Datum::from(schema);
        let tuple = pg_sys::SearchSysCache(namespaceoid, key, none, none, none);
        if tuple.is_null() {
            pgrx::error!("cache lookup failed for schema {}", schema.to_u32());
        }
        let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_namespace>();
        let owner = (*form).nspowner;
        pg_sys::ReleaseSysCache(tuple);
        owner
    }
}
