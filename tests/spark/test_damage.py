"""Damaged logs of a checkpoint are found before a query starts; whole ones pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from skyband.errors import EngineError
from skyband.jobs.spark.checkpoint import check_logs, told_of_damage

SCHEMAS = "state/0/_stateSchema/default"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """What Spark leaves after twelve batches, and in the middle of the next one."""
    inner = tmp_path / "answers"
    for log in ("offsets", "commits", "sources/0", "state/0/_metadata/v2", SCHEMAS):
        (inner / log).mkdir(parents=True)
    (inner / "sources/1").mkdir()
    (inner / "sources/1/0").write_bytes(b'\0v1\n{"flows":{"0":0}}')  # as for Kafka
    (inner / "metadata").write_text('{"id":"5"}')
    (inner / "state/0/_stateSchema/default/0_5").write_bytes(b"\0\x02v3\0\0\0\4")
    (inner / "state/0/_stateSchema/default/.0_5.crc").write_bytes(b"crc")
    (inner / "state/0/_metadata/v2/0").write_text('v2\n{"operatorInfo":{}}')
    for batch in range(3, 13):  # older ones were removed
        offsets = [{"batchWatermarkMs": 0}, {"logOffset": batch}, {"flows": {"0": batch}}, None, 7]
        told = "\n".join(["v1", *("-" if each is None else json.dumps(each) for each in offsets)])
        (inner / "offsets" / str(batch)).write_text(told)
        (inner / "offsets" / f".{batch}.crc").write_bytes(b"\xff")
        (inner / "sources/0" / str(batch)).write_text('v1\n{"path":"a"}\n{"path":"b"}')
    for batch in range(3, 12):
        (inner / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":5}')
    (inner / "sources/0/9").rename(inner / "sources/0/9.compact")
    return tmp_path


def test_whole_logs_pass(checkpoint: Path) -> None:
    check_logs(str(checkpoint))
    check_logs(str(checkpoint / "new"))
    (checkpoint / "answers/commits/12").write_text("v1\n{}")
    check_logs(str(checkpoint))


@pytest.mark.parametrize(
    ("path", "text", "told"),
    [
        ("metadata", None, "metadata is missing"),
        ("metadata", "", "metadata is empty"),
        ("metadata", '{"id":"', "metadata is cut off or overwritten"),
        ("offsets/7", "nothing", "offsets/7 is no log of Spark"),
        ("offsets/12", 'v1\n{"batch', "offsets/12 is cut off"),
        ("commits/11", None, "commits/11 is missing"),
        ("commits/3", "", "commits/3 is empty"),
        ("sources/0/9.compact", 'v1\n{"path', "sources/0/9.compact is cut off"),
        ("sources/0/12", None, "sources/0/12 is missing"),
        ("state/0/_metadata/v2/0", "v2\n{", "state/0/_metadata/v2/0 is cut off"),
        ("state/0/_stateSchema/default/0_5", "", "state/0/_stateSchema/default/0_5 is no schema"),
    ],
)
def test_what_is_damaged_is_named(checkpoint: Path, path: str, text: str | None, told: str) -> None:
    found = checkpoint / "answers" / path
    if text is None:
        found.unlink()
    else:
        found.write_text(text)
    with pytest.raises(EngineError, match=f"is damaged: {told}.*Restore it from a copy, or give"):
        check_logs(str(checkpoint))


def test_a_batch_that_was_done_has_offsets(checkpoint: Path) -> None:
    (checkpoint / "answers/commits/12").write_text("v1\n{}")
    (checkpoint / "answers/offsets/12").unlink()
    with pytest.raises(EngineError, match=r"offsets/12 is missing"):
        check_logs(str(checkpoint))


def test_the_line_of_sparks_message_that_counts() -> None:
    message = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback:\n"
        "java.lang.Exception: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred.\n\tat x"
    )
    assert told_of_damage(message) == "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED: An error occurred."
    assert told_of_damage("[STREAM_FAILED] Query [id = 1]: division by zero") is None
