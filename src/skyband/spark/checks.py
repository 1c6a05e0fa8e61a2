"""What can be known to fail before a job starts."""

from __future__ import annotations

from typing import Any

__all__ = ["check_session"]

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def check_session(session: Any, streaming: bool) -> None:
    """Raise EngineError where workers or settings cannot run a job; sets the state store."""
    if streaming and "RocksDB" not in session.conf.get(_PROVIDER, ""):
        session.conf.set(_PROVIDER, ROCKSDB)
