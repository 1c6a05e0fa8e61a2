"""What a local job promises of its checkpoint: damage, locks, full disks, and bad files."""

from __future__ import annotations

import json
import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs import parse_job, run_job
from skyband.jobs.local.checkpoint import Batch, Checkpoint
from skyband.jobs.local.journal import BLOCK, Journal
from skyband.jobs.local.local_job import LocalJob, run_local
from skyband.jobs.world import MACHINE
from support.local_jobs import job, out, rows, wanted, written


class TestJournal:
    """Records are numbered, and each says which were safe when it was written."""

    def made(self, folder: Path, groups: list[int]) -> Path:
        path, number = folder / "journal-0", 0
        log = Journal.begun(path, 0)
        for size in groups:
            for _ in range(size):
                log.append({"n": number}, bytes([number]) * 300)
                number += 1
            log.sync()
        log.close()
        return path

    def read(self, path: Path) -> list[int]:
        log, records = Journal.opened(path, 0)
        log.close()
        assert all(record.rows == bytes([record.number]) * 300 for record in records)
        return [record.header["n"] for record in records]

    def test_a_torn_tail_is_cut_wherever_it_is_torn(self, tmp_path: Path) -> None:
        whole = self.made(tmp_path, [1, 3, 2]).read_bytes()
        path = tmp_path / "journal-0"
        for size in [*range(BLOCK, len(whole), 97), len(whole)]:
            path.write_bytes(whole[:size])
            read = self.read(path)
            assert read == list(range(len(read)))
            assert self.read(path) == read  # what was cut off is gone

    def test_a_flipped_bit_before_records_that_came_later_is_refused(self, tmp_path: Path) -> None:
        path = self.made(tmp_path, [1] * 20)
        whole = path.read_bytes()
        chance = random.Random(3)
        for _ in range(60):
            # The last record may be torn; nobody can tell. Nothing says that zeros are wrong.
            number = chance.randrange(19)
            at = (number + 1) * BLOCK + chance.randrange(300)
            path.write_bytes(
                whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :]
            )
            with pytest.raises(sb.EngineError, match=f"batch {number}, at byte .*truncate -s"):
                self.read(path)

    def test_a_group_that_was_not_safe_yet_may_be_torn_anywhere(self, tmp_path: Path) -> None:
        """A disk may write the blocks of one sync in any order."""
        path = self.made(tmp_path, [1, 30])
        whole = bytearray(path.read_bytes())
        whole[2 * BLOCK + 700] ^= 1
        path.write_bytes(whole)
        read = self.read(path)
        assert read == list(range(len(read)))
        assert 1 <= len(read) < 31

    def test_a_record_may_end_with_its_block(self, tmp_path: Path) -> None:
        log = Journal.begun(tmp_path / "other", 0)
        before = log.size
        log.append({"n": 0})
        left = BLOCK - (log.size - before)
        log.close()
        log = Journal.begun(tmp_path / "journal-0", 0)
        log.append({"n": 0}, bytes(left))
        assert log.size % BLOCK == 0
        log.sync()
        log.close()
        log, records = Journal.opened(tmp_path / "journal-0", 0)
        log.close()
        assert [record.rows for record in records] == [bytes(left)]

    def test_posted_rows_cannot_pass_for_records(self, tmp_path: Path) -> None:
        other = self.made(tmp_path, [1, 1, 1, 1]).read_bytes()
        path = tmp_path / "own"
        log = Journal.begun(path, 0)
        log.append({"n": 0}, b"a")
        log.sync()
        log.append({"n": 1}, other)
        log.sync()
        log.close()
        path.write_bytes(path.read_bytes()[: -2 * BLOCK])
        log, records = Journal.opened(path, 0)
        log.close()
        assert [record.number for record in records] == [0]


def entered(folder: Path, batches: int) -> None:
    with closing(Checkpoint(str(folder), "network", {"busiest": "1"})) as checkpoint:
        first = len(checkpoint.batches(-1))
        for number in range(first, first + batches):
            checkpoint.enter([Batch(number, "", number, number + 1)])


def test_a_journal_that_was_deleted_or_emptied_is_noticed(tmp_path: Path) -> None:
    entered(tmp_path, 3)
    path = tmp_path / "journal-0"
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(sb.EngineError, match=r"journal-0 is missing.* put it back"):
        entered(tmp_path, 1)
    for content in (b"", whole[:20], b"x" + whole[1:]):
        path.write_bytes(content)
        with pytest.raises(sb.EngineError, match="journal-0 is damaged at its beginning"):
            entered(tmp_path, 1)
    path.write_bytes(whole)
    entered(tmp_path, 1)


def test_two_copies_of_a_job_cannot_run(tmp_path: Path) -> None:
    written(tmp_path, rows(1))
    running = LocalJob(parse_job(job(tmp_path)))
    steps = running.steps(lambda: False)
    next(steps)
    with pytest.raises(sb.EngineError, match=r"another process uses .*state.* another checkpoint"):
        run_job(parse_job(job(tmp_path)))
    list(steps)
    assert out(tmp_path, "busiest") == wanted(tmp_path, "busiest")
    assert run_local(parse_job(job(tmp_path))).rows == 0


def test_files_that_are_being_written_have_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts: set[str] = set()
    replace = Path.replace

    def noted(self: Path, target: Any) -> Path:
        drafts.add(self.name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", noted)
    for content in (b"one", b"two"):
        MACHINE.write_whole(tmp_path / "file", content)
    assert len(drafts) == 2
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"two"]


@pytest.mark.parametrize("left", ["skyband.json.part", "skyband.json-0123456789ab.part", "lock"])
def test_a_folder_of_unfinished_files_is_empty(tmp_path: Path, left: str) -> None:
    written(tmp_path, rows(1))
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / left).write_bytes(b"{")
    run_job(parse_job(job(tmp_path)))
    assert out(tmp_path, "busiest") == wanted(tmp_path, "busiest")
    assert not list((tmp_path / "state").glob("*.part"))


# Bad files ----------------------------------------------------------------------------------------


def told(folder: Path, **changes: Any) -> dict[str, Any]:
    made = job(folder, dead_letters={"kind": "files", "path": str(folder / "bad")})
    made["source"] = {"kind": "files", "path": str(folder / "in")}
    made["queries"] = {"busiest": made["queries"]["busiest"] | {"window": {"size": 10}, "k": 9}}
    return made | changes


def letters(folder: Path) -> list[dict[str, Any]]:
    lines = [each.read_text().splitlines() for each in sorted((folder / "bad").glob("*.json"))]
    return [json.loads(line) for each in lines for line in each]


def files(folder: Path, **texts: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / "in" / name.replace("_", ".")).write_text(text)


CSV = "ts,flow,bytes\n"
GOOD = {"a_csv": f"{CSV}1,1,5\n2,2,6\n", "c_csv": f"{CSV}5,5,5\n"}
BAD = {
    "a fraction": {"b_csv": f"{CSV}3,3,5.5\n4,4,7\n"},
    "text": {"b_csv": f"{CSV}3,3,many\n4,4,7\n"},
    "a ragged line": {"b_csv": f"{CSV}3,3\n4,4,7\n"},
    "a JSON type": {
        "b_json": '{"ts": 3, "flow": 3, "bytes": [1]}\n{"ts": 4, "flow": 4, "bytes": 7}\n'
    },
    "no JSON": {"b_json": '{oops\n{"ts": 4, "flow": 4, "bytes": 7}\n'},
}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_record_of_a_file_is_a_dead_letter(tmp_path: Path, name: str, together: bool) -> None:
    """Whether its file is found with others, or alone after them; and once after a crash."""
    files(tmp_path, a_csv=GOOD["a_csv"])
    if not together:
        run_job(parse_job(told(tmp_path, trigger={"once": True})))
    files(tmp_path, c_csv=GOOD["c_csv"], **BAD[name])
    progress = run_local(parse_job(told(tmp_path)))
    assert [row["flow"] for row in out(tmp_path, "busiest")] == [4, 2, 5, 1]
    (letter,) = letters(tmp_path)
    assert "b." in letter["file"]
    assert "3" in letter["record"] or "oops" in letter["record"]
    assert progress.report().bad == 1
    assert run_local(parse_job(told(tmp_path))).rows == 0


def test_bad_records_are_the_same_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyband.jobs.local.local_job._SAVE_EVERY", 3600)
    texts = {f"b{i}{name.split('_')[0]}_{name.split('_')[1]}": text
             for i, each in enumerate(BAD.values()) for name, text in each.items()}  # fmt: skip
    files(tmp_path, **GOOD, **texts)
    (tmp_path / "in" / "z.parquet").write_text("no Parquet")
    running = LocalJob(parse_job(told(tmp_path)))
    steps = running.steps(lambda: False)
    counts = [next(steps).rows for _ in range(2)]
    steps.close()
    found = letters(tmp_path)
    assert run_local(parse_job(told(tmp_path))).replayed == len(counts)
    assert letters(tmp_path)[: len(found)] == found
    assert len(letters(tmp_path)) == 6
    assert len(out(tmp_path, "busiest")) == 8


@pytest.mark.parametrize("repaired", [True, False])
@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("b.parquet", "no Parquet", "could not be read as parquet"),
        ("b.csv", "ts,flow,bytes,bytes\n3,3,5,5\n", "column 'bytes' occurs twice"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_letter_and_may_be_replaced(
    tmp_path: Path, name: str, text: str, reason: str, repaired: bool
) -> None:
    files(tmp_path, a_csv=GOOD["a_csv"])
    run_job(parse_job(told(tmp_path, trigger={"once": True})))
    files(tmp_path, c_csv=GOOD["c_csv"])
    (tmp_path / "in" / name).write_text(text)
    run_job(parse_job(told(tmp_path, trigger={"once": True})))
    (letter,) = letters(tmp_path)
    assert letter["file"].endswith(name)
    assert reason in letter["reason"]
    if repaired and name.endswith("csv"):
        files(tmp_path, b_csv=f"{CSV}7,7,9\n")
    elif repaired:
        table = pa.table({"ts": [7], "flow": [7], "bytes": [9]})
        pa.parquet.write_table(table, tmp_path / "in" / name)
    else:
        (tmp_path / "in" / name).unlink()
    run_job(parse_job(told(tmp_path)))
    flows = [row["flow"] for row in out(tmp_path, "busiest")]
    assert flows == ([7, 2, 5, 1] if repaired else [2, 5, 1])


@pytest.mark.parametrize("repaired", [True, False])
def test_a_file_that_stopped_a_job_may_be_repaired_or_removed(
    tmp_path: Path, repaired: bool
) -> None:
    strict = told(tmp_path, on_bad="raise")
    del strict["dead_letters"]
    files(tmp_path, a_csv=GOOD["a_csv"])
    run_job(parse_job(strict | {"trigger": {"once": True}}))
    files(tmp_path, c_csv=GOOD["c_csv"], b_csv=f"{CSV}3,3,5.5\n")
    with pytest.raises(sb.SchemaError, match="bytes"):
        run_job(parse_job(strict))
    time.sleep(0.01)
    if repaired:
        files(tmp_path, b_csv=f"{CSV}3,3,9\n")
    else:
        (tmp_path / "in" / "b.csv").unlink()
    run_job(parse_job(strict))
    flows = [row["flow"] for row in out(tmp_path, "busiest")]
    assert sorted(flows) == ([1, 2, 3, 5] if repaired else [1, 2, 5])


@pytest.mark.parametrize("killed", [False, True])
def test_a_row_that_no_query_can_take_is_a_dead_letter(tmp_path: Path, killed: bool) -> None:
    """One row far ahead over a landmark would ask for more answers than there can be."""
    made = told(tmp_path)
    made["queries"]["busiest"]["window"] = {"since": 0, "slide": 10}
    files(tmp_path, a_csv=f"{CSV}1,1,5\n{2**60},2,6\n12,3,4\n", c_csv=f"{CSV}15,5,5\n")
    if killed:
        steps = LocalJob(parse_job(made)).steps(lambda: False)
        next(steps)
        steps.close()
    progress = run_local(parse_job(made))
    assert progress.replayed == killed
    (letter,) = letters(tmp_path)
    assert json.loads(letter["record"])["flow"] == 2
    assert (progress.rows, progress.unread) == (3, 1)
    assert progress.report().rows == 4, "each record counts once"
    assert [row["flow"] for row in out(tmp_path, "busiest")] == [1, 5, 1, 3]
