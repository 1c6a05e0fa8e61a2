"""The oracle's windows and watermarks, compared with results by hand."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import oracle
from oracle import Row, TimeWindow
from support import streams


def at(*times: int) -> list[Row]:
    return [{"ts": time} for time in times]


def windows(rows: list[Row], size: int, slide: int, offset: int = 0) -> list[tuple[int, ...]]:
    """(start, end, times of the rows in it...)"""
    live = oracle.time_windows(rows, "ts", size, slide, offset)
    return [(start, end, *(row["ts"] for row in inside)) for start, end, inside in live]


def column(table: list[Row], name: str) -> list[Any]:
    return [row[name] for row in table]


# ---------------------------------------------------------------------------------------------
# Windows


def test_sliding_windows_fill_at_the_start_and_stop_at_the_first_end_after_the_last_row() -> None:
    #   0    5    10   15   20
    #   a  b |    | c  |    |        a = 0, b = 3, c = 11
    # ──────)|    |    |    |        end 5   a b       still filling
    #   [─────────)    |    |        end 10  a b       [0, 10) has its start, not its end
    #        [─────────)    |        end 15  c         first end after the last row
    #             [ ─ ─ ─ ─ )        end 20  would hold c, but comes after that end
    assert windows(at(0, 3, 11), 10, 5) == [(-5, 5, 0, 3), (0, 10, 0, 3), (5, 15, 11)]


def test_a_row_on_an_edge_belongs_to_the_window_that_starts_there() -> None:
    #   0         10        20
    #   |         r         |        r = 10
    #   [─────────)         |        end 10  nothing
    #             [─────────)        end 20  r
    assert windows(at(10), 10, 10) == [(10, 20, 10)]


def test_a_gap_gives_one_empty_window() -> None:
    #   0    10   20   30   40
    #   | a  |    |    | b  |        a = 5, b = 35
    #   [────)    |    |    |        end 10  a
    #        [────)    |    |        end 20  empty: a leaves
    #             [ ─ ─)    |        end 30  empty again: no answer
    #                  [────)        end 40  b
    live = oracle.time_windows(at(5, 35), "ts", 10, 10)
    assert [(w.end, w.empty) for w in live] == [(10, False), (20, True), (40, False)]


def test_slide_not_dividing_size() -> None:
    #   0  2 3  5 6  8 9            size 4, slide 3: panes end at 3j and, as 4 mod 3 = 1, at 3j − 1
    #   |  ¦ |  ¦ |  ¦ |
    #  ─────)|  ¦ |  ¦ |            end 3   [−1, 3)
    #      [──────)  ¦ |            end 6   [2, 6)
    #           [──────)            end 9   [5, 9)
    assert windows(at(1, 2, 5, 6), 4, 3) == [(-1, 3, 1, 2), (2, 6, 2, 5), (5, 9, 5, 6)]
    assert [oracle.pane_end(t, 4, 3) for t in range(-2, 6)] == [-1, 0, 2, 2, 3, 5, 5, 6]


def test_slide_beyond_size_leaves_rows_unused() -> None:
    #   0      7  10     17 20      size 3, slide 10
    #   | u    a  |  v      |       u = 4, a = 7, v = 12
    #          [──)         |       end 10  a
    #                    [──)       end 20  empty, and v is the last row
    assert windows(at(4, 7, 12), 3, 10) == [(7, 10, 7), (17, 20)]
    assert [oracle.is_unused(t, 3, 10) for t in (4, 6, 7, 9, 12)] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert [oracle.pane_end(t, 3, 10) for t in (4, 6, 7, 9, 10)] == [7, 7, 10, 10, 17]
    assert windows(at(4), 3, 10) == []


def test_offset_moves_the_ends_and_times_may_be_negative() -> None:
    assert windows(at(-1, 1, 2), 5, 5, offset=2) == [(-3, 2, -1, 1), (2, 7, 2)]
    assert windows(at(-11), 5, 5) == [(-15, -10, -11)]
    assert windows([], 5, 5) == []


def test_count_windows() -> None:
    #   arrivals  0 1 2 3 4         size 3, slide 2
    #            [───)              end 2   0 1      still filling
    #              [─────)          end 4   1 2 3
    #                               arrival 4 waits for a full slide
    live = oracle.count_windows([{"n": n} for n in range(5)], 3, 2)
    assert [(w.start, w.end, column(w.rows, "n")) for w in live] == [
        (0, 2, [0, 1]),
        (1, 4, [1, 2, 3]),
    ]
    rare = oracle.count_windows([{"n": n} for n in range(9)], 1, 4)
    assert [column(w.rows, "n") for w in rare] == [[3], [7]]


@given(streams.streams(), streams.time_windows())
def test_time_windows_are_those_of_the_definition(s: streams.Stream, w: TimeWindow) -> None:
    times = column(s.rows, "ts")
    expected = []
    was_empty = True
    for end in range(min(times, default=0) - 30, max(times, default=0) + 30):
        if (end - w.offset) % w.step == 0 and any(end - w.step <= t for t in times):
            inside = [t for t in times if end - w.size <= t < end]
            if inside or not was_empty:
                expected.append((end - w.size, end, *inside))
            was_empty = not inside
    assert windows(s.rows, w.size, w.step, w.offset) == expected


# ---------------------------------------------------------------------------------------------
# Late rows


def fates(batches: list[Any], **window: Any) -> list[tuple[list[int], list[int], int | None]]:
    """Per push: times taken, times late, watermark after it."""
    return [
        (
            [row["ts"] for rows in push.taken.values() for row in rows],
            [row["ts"] for rows in push.late.values() for row in rows],
            push.watermark,
        )
        for push in oracle.late_rows(batches, "ts", **window)
    ]


def test_a_row_is_late_when_its_pane_is_sealed() -> None:
    #   0    5    10   15           size 10, slide 5, lateness 0
    #   1st push: 0, 3, 11   ─► watermark 11: panes [0, 5) and [5, 10) are sealed
    #   2nd push: 2 late, 9 late, 10 in time: pane [10, 15) is open though 10 < 11
    assert fates([at(0, 3, 11), at(2, 9, 10)], size=10, slide=5) == [
        ([0, 3, 11], [], 11),
        ([10], [2, 9], 11),
    ]


def test_a_push_is_judged_against_the_watermark_before_it() -> None:
    # Within one push nothing is late, whatever the order of its rows.
    assert fates([at(11, 0)], size=5, slide=5) == [([11, 0], [], 11)]
    assert fates([at(11), at(0)], size=5, slide=5) == [([11], [], 11), ([], [0], 11)]


def test_lateness_holds_the_watermark_back() -> None:
    # watermark 11 − 6 = 5 seals [0, 5) exactly; with lateness 7 it is 4 and the pane stays open
    assert fates([at(11), at(4)], size=5, slide=5, lateness=6)[1] == ([], [4], 5)
    assert fates([at(11), at(4)], size=5, slide=5, lateness=7)[1] == ([4], [], 4)


def test_an_inner_cut_seals_earlier() -> None:
    # size 4, slide 3: panes [0, 2), [2, 3), [3, 5) ...; watermark 2 seals only the first
    assert fates([at(2), at(0), at(1), at(2)], size=4, slide=3) == [
        ([2], [], 2),
        ([], [0], 2),
        ([], [1], 2),
        ([2], [], 2),
    ]


def test_the_slowest_source_holds() -> None:
    pushes = [
        {"a": at(20)},
        {"a": at(1)},
        {"b": at(7)},
        {"a": at(4, 5)},
        {"b": at(12)},
        {"a": at(9)},
    ]
    assert fates(pushes, size=5, slide=5, sources=["a", "b"]) == [
        ([20], [], None),  # b is still unseen
        ([1], [], None),
        ([7], [], 7),
        ([5], [4], 7),
        ([12], [], 12),
        ([], [9], 12),
    ]


def test_an_unused_row_is_not_late_and_moves_the_watermark() -> None:
    # size 3, slide 10: 12 lies in no window; it seals [7, 10), so that 8 is late; 4 is unused
    pushes = list(oracle.late_rows([at(12), at(8, 4)], "ts", 3, 10))
    assert pushes[0].watermark == 12
    assert (pushes[1].late, pushes[1].unused) == ({None: at(8)}, {None: at(4)})


@given(st.data(), streams.time_windows())
def test_no_row_is_late_within_the_lateness(data: st.DataObject, w: TimeWindow) -> None:
    s = data.draw(streams.streams(lateness=w.lateness))
    query = {"k": 2, "score": "score", "id": "id", "time": "ts", "by": ("g",)}
    cut = oracle.answers("TopK", w, s.row_batches, **query)
    whole = oracle.answers("TopK", w, [s.rows], **query)
    assert cut.rows_late == 0
    assert cut.table == whole.table
    assert [a.changes for a in cut.answers] == [a.changes for a in whole.answers]
