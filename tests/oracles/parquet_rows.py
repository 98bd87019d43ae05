#!/usr/bin/env python3
"""Prints a Parquet file of spans as pyarrow reads it: its schema, then a JSON object per row."""
import json
import sys

import pyarrow as arrow
import pyarrow.parquet as parquet

table = parquet.read_table(sys.argv[1])
metadata = table.schema.metadata or {}
print(json.dumps({
    "schema": metadata.get(b"schema", b"").decode(),
    "types": {field.name: str(field.type) for field in table.schema},
}))
for name in ("start_time_nanos", "end_time_nanos"):
    # Python's own datetime has no nanoseconds.
    at = table.schema.get_field_index(name)
    table = table.set_column(at, name, table.column(name).cast(arrow.int64()))
for row in table.to_pylist():
    for name in ("trace_id", "span_id", "parent_span_id"):
        row[name] = row[name] and row[name].hex()
    for name in ("attributes_json", "resource_json"):
        row[name] = json.loads(row[name])
    print(json.dumps(row))
