//! OIDs of built-in types, operator families and operators, by the names of `catalog/pg_*.dat`.

/// Types.
pub mod types {
    use crate::Oid;
    use pgrx::pg_sys;

    pub const BOOL: Oid = pg_sys::BOOLOID;
    pub const BYTEA: Oid = pg_sys::BYTEAOID;
    pub const CHAR: Oid = pg_sys::CHAROID;
    pub const INT8: Oid = pg_sys::INT8OID;
    pub const INT2: Oid = pg_sys::INT2OID;
    pub const INT4: Oid = pg_sys::INT4OID;
    pub const TEXT: Oid = pg_sys::TEXTOID;
    pub const OID: Oid = pg_sys::OIDOID;
    pub const JSON: Oid = pg_sys::JSONOID;
    pub const JSONB: Oid = pg_sys::JSONBOID;
    pub const TEXT_ARRAY: Oid = pg_sys::TEXTARRAYOID;
    pub const FLOAT4: Oid = pg_sys::FLOAT4OID;
    pub const FLOAT8: Oid = pg_sys::FLOAT8OID;
    pub const BPCHAR: Oid = pg_sys::BPCHAROID;
    pub const VARCHAR: Oid = pg_sys::VARCHAROID;
    pub const DATE: Oid = pg_sys::DATEOID;
    pub const TIME: Oid = pg_sys::TIMEOID;
    pub const TIMESTAMP: Oid = pg_sys::TIMESTAMPOID;
    pub const TIMESTAMPTZ: Oid = pg_sys::TIMESTAMPTZOID;
    pub const INET: Oid = pg_sys::INETOID;
    pub const CIDR: Oid = pg_sys::CIDROID;
    pub const MONEY: Oid = pg_sys::MONEYOID;
    pub const NUMERIC: Oid = pg_sys::NUMERICOID;
    pub const UUID: Oid = pg_sys::UUIDOID;

    /// `getBaseType`: what a domain is made of; any other type is its own.
    pub fn base(type_oid: Oid) -> Oid {
        if type_oid.to_u32() < pg_sys::FirstGenbkiObjectId {
            // No domain has an OID assigned by hand.
            return type_oid;
        }
        // SAFETY: a catalog lookup; raises an ERROR for a type that does not exist.
        unsafe { pg_sys::getBaseType(type_oid) }
    }

    /// Whether the type is an enum.
    pub fn is_enum(type_oid: Oid) -> bool {
        // No enum has an OID assigned by hand.
        // SAFETY: a catalog lookup.
        type_oid.to_u32() >= pg_sys::FirstGenbkiObjectId
            && unsafe { pg_sys::type_is_enum(type_oid) }
    }
}

/// Operator families of btree.
pub mod families {
    use pgrx::pg_sys;

    pub const BOOL: u32 = pg_sys::BOOL_BTREE_FAM_OID.to_u32();
    pub const BPCHAR: u32 = pg_sys::BPCHAR_BTREE_FAM_OID.to_u32();
    pub const BYTEA: u32 = pg_sys::BYTEA_BTREE_FAM_OID.to_u32();
    pub const CHAR: u32 = 429;
    pub const DATETIME: u32 = 434;
    pub const ENUM: u32 = 3522;
    pub const FLOAT: u32 = 1970;
    pub const INTEGER: u32 = pg_sys::INTEGER_BTREE_FAM_OID.to_u32();
    pub const NETWORK: u32 = pg_sys::NETWORK_BTREE_FAM_OID.to_u32();
    pub const NUMERIC: u32 = 1988;
    pub const OID: u32 = pg_sys::OID_BTREE_FAM_OID.to_u32();
    pub const TEXT: u32 = pg_sys::TEXT_BTREE_FAM_OID.to_u32();
    pub const TIME: u32 = 1996;
    pub const UUID: u32 = 2968;
}

/// Operators.
pub mod operators {
    use pgrx::pg_sys;

    pub const TEXT_LIKE: u32 = pg_sys::OID_TEXT_LIKE_OP;
    pub const TEXT_NOT_LIKE: u32 = 1210;
    pub const BPCHAR_LIKE: u32 = pg_sys::OID_BPCHAR_LIKE_OP;
    pub const BPCHAR_NOT_LIKE: u32 = 1212;
}
