//! Column types, and how their values are made.

/// A type and how values of it are made from the integer expression `{i}`.
pub(super) struct Kind {
    pub sql: &'static str,
    pub value: &'static str,
    /// Whether a btree index on it makes sense here.
    pub indexable: bool,
}

pub(super) const KINDS: &[Kind] = &[
    Kind {
        sql: "int",
        value: "(({i}) * 7919 % 1000)::int",
        indexable: true,
    },
    Kind {
        sql: "bigint",
        value: "(({i})::bigint * 1000003)",
        indexable: true,
    },
    Kind {
        sql: "smallint",
        value: "(({i}) % 300)::smallint",
        indexable: true,
    },
    Kind {
        sql: "text",
        value: "repeat('w' || (({i}) % 97), 1 + ({i}) % 5)",
        indexable: true,
    },
    Kind {
        sql: "varchar(40)",
        value: "('v' || ({i}) % 13)::varchar(40)",
        indexable: true,
    },
    Kind {
        sql: "numeric",
        value: "(({i}) * 1.10 / (1 + ({i}) % 4))",
        indexable: true,
    },
    Kind {
        sql: "numeric(12,2)",
        value: "CASE WHEN ({i}) % 50 = 0 THEN 'NaN' ELSE (({i}) % 9999) / 100.0 END",
        indexable: true,
    },
    Kind {
        sql: "float8",
        value: "CASE ({i}) % 40 WHEN 0 THEN 'NaN'::float8 WHEN 1 THEN 'infinity' WHEN 2 THEN '-0' ELSE ({i}) / 8.0 END",
        indexable: true,
    },
    Kind {
        sql: "float4",
        value: "(({i}) % 1000 / 4.0)::float4",
        indexable: true,
    },
    Kind {
        sql: "bool",
        value: "(({i}) % 3 = 0)",
        indexable: false,
    },
    Kind {
        sql: "date",
        value: "CASE WHEN ({i}) % 60 = 0 THEN 'infinity' ELSE date '2020-01-01' + (({i}) % 2000)::int END",
        indexable: true,
    },
    Kind {
        sql: "timestamptz",
        value: "(timestamptz '2021-03-04 05:06:07+00' + ({i}) * interval '13 seconds')",
        indexable: true,
    },
    Kind {
        sql: "interval",
        value: "(({i}) % 500 * interval '7 minutes')",
        indexable: true,
    },
    Kind {
        sql: "uuid",
        value: "md5(({i})::text)::uuid",
        indexable: true,
    },
    Kind {
        sql: "jsonb",
        value: "jsonb_build_object('a', ({i}) % 10, 'b', ({i})::text)",
        indexable: false,
    },
    Kind {
        sql: "int[]",
        value: "ARRAY[({i}) % 5, NULL, ({i})]::int[]",
        indexable: true,
    },
    Kind {
        sql: "bytea",
        value: "decode(md5(({i})::text), 'hex')",
        indexable: true,
    },
    Kind {
        sql: "int4range",
        value: "int4range((({i}) % 100)::int, (({i}) % 100)::int + 5)",
        indexable: true,
    },
];
