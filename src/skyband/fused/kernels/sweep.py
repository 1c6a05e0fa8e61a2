"""Which instances of fused objects can still be answered: a sweep from the newest pane back.

An instance is an object as it will be once all panes before one of its own have expired: it uses
the reports of that pane and later ones. Its current score only grows and its best only shrinks.

    pane        3        4        5                  instances, oldest pane first
    reports     p q p    q r      p s                (p,3) (q,3) | (q,4) (r,4) | (p,5) (s,5)

Going back pane by pane, a board keeps the k best current scores of distinct objects of this pane or
newer ones. An instance whose best score comes after the last of the board can never be answered.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Codes, Floats, Ints, Mask
from skyband.fused.kernels.live_reports import Log, before
from skyband.kernels.patient import kernel


@kernel
def instances(
    log: Log, head: int, size: int, mark: Ints, serial: int, low: Floats
) -> tuple[Codes, Codes, Ints, Ints, Floats, Codes]:
    """The instances of a log: object, owner of each report, panes, offsets, values, reports seen.

    ``values`` are the sums of the reports at or after the instance (lower bounds where there are
    none), ``seen`` how many those are. ``mark`` holds no number above ``serial``.
    """
    code, stream, value, pane, chain = log
    room = size - head
    who = np.empty(room, np.int32)
    owner = np.empty(room, np.int32)
    offsets = np.zeros(room + 1, np.int64)
    stamps = np.empty(room, np.int64)
    values = np.zeros((room, len(low)))
    seen = np.zeros((room, len(low)), np.int32)
    latest = np.empty(len(mark), np.int32)
    count = 0
    panes = 0
    for report in range(head, size):
        if report == head or pane[report] != pane[report - 1]:
            offsets[panes] = count
            stamps[panes] = pane[report]
            panes += 1
        object_ = code[report]
        now = serial + panes
        if mark[object_] != now:
            mark[object_] = now
            latest[object_] = count
            who[count] = object_
            later = report
            while later >= 0:
                s = stream[later]
                values[count, s] += value[later]
                seen[count, s] += 1
                later = chain[later]
            for s in range(len(low)):
                if seen[count, s] == 0:
                    values[count, s] = low[s]
            count += 1
        owner[report - head] = latest[object_]
    offsets[panes] = count
    return who[:count], owner, stamps[:panes], offsets[: panes + 1], values[:count], seen[:count]


def best_values(
    values: Floats,
    seen: Codes,
    reported: Codes,
    most: int,
    low: Floats,
    high: Floats,
    share: Floats,
) -> Floats:
    """The greatest values that instances can still reach, with ``most`` live reports per stream.

    ``reported`` counts the reports that leave fewer to come. With ``share``, a stream without a
    report counts only as much as is likely: ``share`` is how many of the objects like the instance
    appear in it.
    """
    more = np.maximum(most - reported, 0)
    unseen = more * high
    if len(share):
        unseen = low + share * (unseen - low)
    return np.where(seen > 0, values + more * high, np.where(more > 0, unseen, low))


@kernel
def live_streams(who: Codes, links: Codes, chain: Codes, stream: Codes) -> Ints:
    """For each instance, a bit for every stream in which its object has a report."""
    masks = np.zeros(len(who), np.int64)
    for i in range(len(who)):
        report = links[who[i], 0]
        while report >= 0:
            masks[i] |= np.int64(1) << np.int64(stream[report])
            report = chain[report]
    return masks


@kernel
def dominated(
    who: Codes, offsets: Ints, current: Floats, best: Floats, key: Ints, k: int
) -> tuple[Mask, int]:
    """Whether k distinct objects of the same or newer panes come before an instance's best score.

    Of scores that tie, those count whose ids' keys decide. Also returns the comparisons made.
    """
    lost = np.zeros(len(who), np.bool_)
    on_board = np.zeros(len(key), np.bool_)
    board = np.empty(k, np.int32)
    points = np.empty(k)
    size = 0
    work = 0
    for pane in range(len(offsets) - 2, -1, -1):
        for i in range(offsets[pane], offsets[pane + 1]):
            code = who[i]
            work += 1
            if on_board[code]:
                at = 0
                while board[at] != code:
                    at += 1
            elif size < k:
                at = size
                size += 1
                on_board[code] = True
            elif before(current[i], key[code], points[k - 1], key[board[k - 1]]):
                at = k - 1
                on_board[board[at]] = False
                on_board[code] = True
            else:
                continue
            while at > 0 and before(current[i], key[code], points[at - 1], key[board[at - 1]]):
                board[at], points[at] = board[at - 1], points[at - 1]
                at -= 1
                work += 1
            board[at], points[at] = code, current[i]
        if size < k:
            continue
        last, last_key = points[k - 1], key[board[k - 1]]
        for i in range(offsets[pane], offsets[pane + 1]):
            lost[i] = before(last, last_key, best[i], key[who[i]])
    return lost, work


@kernel
def compact(
    log: Log, head: int, size: int, lost: Mask, owner: Codes, links: Codes, who: Codes
) -> tuple[int, Codes, Codes]:
    """Drop the reports of lost instances, move the log to its start; who lost all, and some.

    Only the oldest instances of an object are dropped: one stays while an older one does.
    """
    code, stream, value, pane, chain = log
    blocked = np.zeros(len(links), np.bool_)
    for i in range(len(who)):
        if blocked[who[i]]:
            lost[i] = False
        elif not lost[i]:
            blocked[who[i]] = True
    moved = np.empty(size - head, np.int32)
    changed = np.zeros(len(links), np.bool_)
    hit = np.empty(size - head, np.int32)
    hits = 0
    kept = 0
    for report in range(head, size):
        if lost[owner[report - head]]:
            moved[report - head] = -1
            object_ = code[report]
            links[object_, 0] = chain[report]
            if chain[report] < 0:
                links[object_, 1] = -1
            if not changed[object_]:
                changed[object_] = True
                hit[hits] = object_
                hits += 1
        else:
            moved[report - head] = kept
            code[kept], stream[kept] = code[report], stream[report]
            value[kept], pane[kept] = value[report], pane[report]
            chain[kept] = chain[report]
            kept += 1
    for report in range(kept):
        if chain[report] >= 0:
            chain[report] = moved[chain[report] - head]
        object_ = code[report]
        links[object_, 1] = report
    for report in range(kept - 1, -1, -1):
        links[code[report], 0] = report
    dead = np.empty(hits, np.int32)
    gone, left = 0, 0
    for i in range(hits):
        if links[hit[i], 0] < 0:
            dead[gone] = hit[i]
            gone += 1
        else:
            hit[left] = hit[i]
            left += 1
    return kept, dead[:gone], hit[:left]
