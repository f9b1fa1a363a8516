"""Spans in a column store, in the table that the OpenTelemetry Collector's ClickHouse exporter writes: on a server, or embedded."""

from hicachectl.store.columns.database import Database
from hicachectl.store.columns.source import is_columns, opened

__all__ = ["Database", "is_columns", "opened"]
