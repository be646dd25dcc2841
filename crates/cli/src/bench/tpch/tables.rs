//! TPC-H's eight tables, each once as heap and once as howdah, all of howdah's rows cold: with
//! their primary keys, and an index of `lineitem` by part and supplier, without which queries 17
//! and 20 read all of `lineitem` once for each part.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context as _, ensure};
use postgres::Client;

use super::super::{Side, writes};
use crate::progress::{Counting, Progress};

pub(super) struct Table {
    pub name: &'static str,
    columns: &'static str,
    key: &'static str,
}

pub(super) const TABLES: [Table; 8] = [
    Table {
        name: "region",
        columns: "r_regionkey integer, r_name char(25), r_comment varchar(152)",
        key: "r_regionkey",
    },
    Table {
        name: "nation",
        columns: "n_nationkey integer, n_name char(25), n_regionkey integer, n_comment varchar(152)",
        key: "n_nationkey",
    },
    Table {
        name: "supplier",
        columns: "s_suppkey integer, s_name char(25), s_address varchar(40), s_nationkey integer, s_phone char(15), \
                  s_acctbal numeric(15,2), s_comment varchar(101)",
        key: "s_suppkey",
    },
    Table {
        name: "customer",
        columns: "c_custkey integer, c_name varchar(25), c_address varchar(40), c_nationkey integer, c_phone char(15), \
                  c_acctbal numeric(15,2), c_mktsegment char(10), c_comment varchar(117)",
        key: "c_custkey",
    },
    Table {
        name: "part",
        columns: "p_partkey integer, p_name varchar(55), p_mfgr char(25), p_brand char(10), p_type varchar(25), \
                  p_size integer, p_container char(10), p_retailprice numeric(15,2), p_comment varchar(23)",
        key: "p_partkey",
    },
    Table {
        name: "partsupp",
        columns: "ps_partkey integer, ps_suppkey integer, ps_availqty integer, ps_supplycost numeric(15,2), \
                  ps_comment varchar(199)",
        key: "ps_partkey, ps_suppkey",
    },
    Table {
        name: "orders",
        columns: "o_orderkey integer, o_custkey integer, o_orderstatus char(1), o_totalprice numeric(15,2), \
                  o_orderdate date, o_orderpriority char(15), o_clerk char(15), o_shippriority integer, \
                  o_comment varchar(79)",
        key: "o_orderkey",
    },
    Table {
        name: "lineitem",
        columns: "l_orderkey integer, l_partkey integer, l_suppkey integer, l_linenumber integer, \
                  l_quantity numeric(15,2), l_extendedprice numeric(15,2), l_discount numeric(15,2), l_tax numeric(15,2), \
                  l_returnflag char(1), l_linestatus char(1), l_shipdate date, l_commitdate date, l_receiptdate date, \
                  l_shipinstruct char(25), l_shipmode char(10), l_comment varchar(44)",
        key: "l_orderkey, l_linenumber",
    },
];

/// The name of a table on one side.
pub(super) fn name(table: &str, side: Side) -> String {
    format!("bench.tpch_{table}_{}", side.name())
}

/// Makes all tables, and fills them with the rows of these CSV files, which are named for tables.
///
/// # Errors
/// When a statement fails, or a file cannot be read.
pub(super) fn make(client: &mut Client, files: &Path) -> anyhow::Result<()> {
    let steps = (TABLES.len() * Side::BOTH.len()) as u64;
    let mut progress = Progress::of("loading TPC-H", steps, Counting::Things);
    for table in &TABLES {
        for side in Side::BOTH {
            let name = name(table.name, side);
            client.batch_execute(&format!(
                "CREATE TABLE {name} ({}) USING {}",
                table.columns,
                side.name()
            ))?;
            let file = files.join(table.name).with_extension("csv");
            load(client, &file, &name).with_context(|| format!("cannot load {name}"))?;
            client.batch_execute(&format!(
                "ALTER TABLE {name} ADD PRIMARY KEY ({})",
                table.key
            ))?;
            if table.name == "lineitem" {
                client.batch_execute(&format!("CREATE INDEX ON {name} (l_partkey, l_suppkey)"))?;
            }
            writes::settle(client, side, &name)?;
            progress.advance(1, &name);
        }
    }
    client.batch_execute("CHECKPOINT")?;
    progress.finish("eight tables on both sides");
    Ok(())
}

fn load(client: &mut Client, file: &Path, table: &str) -> anyhow::Result<()> {
    let mut rows = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let mut copy = client.copy_in(&format!("COPY {table} FROM STDIN (FORMAT csv, HEADER)"))?;
    io::copy(&mut rows, &mut copy)?;
    let count = copy.finish()?;
    ensure!(count > 0, "{} has no row", file.display());
    Ok(())
}
