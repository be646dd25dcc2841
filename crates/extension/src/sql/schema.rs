//! `howdah.check_schema`: whether CREATE EXTENSION may use the schema `howdah`.
//!
//! A role with CREATE on the database can create that schema before the extension is installed, and
//! put functions and operators into it that match a caller's arguments better than the extension's.

use howdah_bridge::{names, rights};
use pgrx::{PgSqlErrorCode, Spi, pg_extern};

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

/// A role other than the owner that may create objects in a schema, by name.
const CREATOR: &str = "
    SELECT CASE WHEN a.grantee OPERATOR(pg_catalog.=) '0'::pg_catalog.oid THEN 'PUBLIC' ELSE pg_catalog.pg_get_userbyid(a.grantee)::pg_catalog.text END
    FROM pg_catalog.pg_namespace n, pg_catalog.aclexplode(n.nspacl) a
    WHERE n.oid OPERATOR(pg_catalog.=) $1 AND a.privilege_type OPERATOR(pg_catalog.=) 'CREATE'
        AND a.grantee OPERATOR(pg_catalog.<>) n.nspowner
    LIMIT 1";

/// Rejects a schema that neither the installing role nor a superuser owns, in which another role
/// may create objects, or that is not empty.
#[pg_extern(sql = false)]
fn check_schema() {
    let (schema, owner) = names::schema_and_owner(c"howdah");
    if !rights::is_self_or_superuser(owner) {
        refuse(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            "schema \"howdah\" belongs to another role".into(),
            Some("Drop or rename it; CREATE EXTENSION makes its own.".into()),
        );
    }
    let creator = Spi::get_one_with_args::<String>(CREATOR, &[schema.into()]);
    if let Ok(Some(creator)) = creator {
        refuse(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("{creator} may create objects in schema \"howdah\""),
            Some("REVOKE CREATE ON SCHEMA howdah, and see that ALTER DEFAULT PRIVILEGES does not grant it.".into()),
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
    if names::role_exists(c"howdah") {
        pgrx::ereport!(
            pgrx::PgLogLevel::WARNING,
            PgSqlErrorCode::ERRCODE_WARNING,
            "there is a role \"howdah\", whose tables would be created in schema \"howdah\"",
            "\"$user\" in search_path means that schema for it: ALTER ROLE howdah SET search_path = public, or rename the role."
        );
    }
}
