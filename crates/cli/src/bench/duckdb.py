"""Answers the bench's questions in DuckDB; reads one JSON request, writes one JSON answer."""

import json
import os
import sys
import time

import duckdb

request = json.load(open(sys.argv[1]))
path = request["database"]
for leftover in (path, path + ".wal"):
    if os.path.exists(leftover):
        os.remove(leftover)
connection = duckdb.connect(path)
for statement in request["source"]:
    connection.execute(statement)


def timed(sql):
    started = time.perf_counter()
    rows = connection.execute(sql).fetchall()
    return time.perf_counter() - started, rows


answer = {"version": duckdb.__version__, "load_seconds": [], "questions": [], "lookup_microseconds": []}
for _ in range(request["runs"]):
    connection.execute("DROP TABLE IF EXISTS t")
    connection.execute("CHECKPOINT")
    connection.execute("CREATE TABLE t AS SELECT * FROM source LIMIT 0")
    seconds, _ = timed("INSERT INTO t SELECT * FROM source")
    answer["load_seconds"].append(seconds)
connection.execute("DROP TABLE source")
connection.execute("CHECKPOINT")
answer["index_seconds"] = None
if request["index"]:
    answer["index_seconds"], _ = timed(request["index"])
    connection.execute("CHECKPOINT")

# The size of the table alone: its blocks, without the index and the dropped staging table.
blocks = connection.execute(
    "SELECT count(DISTINCT block_id) FROM pragma_storage_info('t') WHERE persistent"
).fetchone()[0]
block_bytes = connection.execute("SELECT block_size FROM pragma_database_size()").fetchone()[0]
answer["table_bytes"] = blocks * block_bytes

for question in request["questions"]:
    milliseconds, rows = [], []
    for run in range(request["runs"] + 1):
        if question["changes"]:
            connection.execute("BEGIN")
        seconds, rows = timed(question["sql"])
        if question["changes"]:
            connection.execute("ROLLBACK")
            rows = []
        if run > 0:
            milliseconds.append(seconds * 1e3)
    text = [["NULL" if field is None else str(field) for field in row] for row in rows]
    answer["questions"].append({"milliseconds": milliseconds, "rows": text})

for key in request["keys"]:
    started = time.perf_counter()
    connection.execute("SELECT * FROM t WHERE c1 = ?", [key]).fetchall()
    answer["lookup_microseconds"].append((time.perf_counter() - started) * 1e6)

json.dump(answer, sys.stdout)
