"""64-bit hashes of integers and bytes, and the open-addressing table from hash to dense code.

The hashes have no seed, so they are the same in every process and on every machine we run on
(little-endian). Integers are mixed by a bijection, so two of them never collide.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Codes, Floats, Hashes, Ints
from skyband.kernels.borrow import frozen
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel, kernel_of
from skyband.kernels.strings import Bytes, Offsets, Words, bytes_and_words

NULL_HASH = np.uint64(0x6E756C6C5F6B6579)
"""The hash of a null of any type."""

EMPTY = -1
"""The code in a table slot that holds no key."""

# Odd multipliers with about as many ones as zeros: the golden ratio, the two of the SplitMix64
# finaliser (Stafford's mix 13), and digits of pi.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_WORD_A = np.uint64(0x13198A2E03707345)
_WORD_B = np.uint64(0xA4093822299F31D1)
_ROUND = np.uint64(0xC0AC29B7C97C50DD)
_ONE = np.uint64(1)
_3, _27, _30, _31, _33, _37 = (np.uint64(n) for n in (3, 27, 30, 31, 33, 37))
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_BITS = np.uint64(64)


@jit
def mix(x: np.uint64) -> np.uint64:
    """A bijection of 64 bits in which every input bit changes every output bit half the time."""
    x = x + _GOLDEN
    x = (x ^ (x >> _30)) * _MIX_A
    x = (x ^ (x >> _27)) * _MIX_B
    return x ^ (x >> _31)


plain_mix: Any = getattr(mix, "py_func", mix)
"""The same of whole arrays, without the JIT."""


@jit
def _absorb(state: np.uint64, word: np.uint64) -> np.uint64:
    """Take one word in: a bijection of the state for any word, and of the word for any state."""
    word = word * _WORD_A
    word = ((word << _31) | (word >> _33)) * _WORD_B
    state = state ^ word
    return ((state << _27) | (state >> _37)) * _ROUND + _GOLDEN


def hash_int64(values: Ints) -> Hashes:
    """Hashes of integers; distinct integers have distinct hashes."""
    return _hash_words(values.view(np.uint64))


@kernel_of(stand_in=plain_mix)
def _hash_words(bits: Hashes) -> Hashes:
    out = np.empty(len(bits), np.uint64)
    for i in range(len(bits)):
        out[i] = mix(bits[i])
    return out


def hash_float64(values: Floats) -> Hashes:
    """Hashes of floats: both zeros have the same hash, and so have all NaNs."""
    with np.errstate(invalid="ignore"):
        alike = np.where(np.isnan(values), np.nan, values + 0.0)
    return _hash_words(frozen(alike).view(np.uint64))


@kernel
def _hash_spans(offsets: Offsets, data: Bytes, words: Words) -> Hashes:
    """Reads words from both ends; they overlap in the middle, so there is no tail to loop over.

    One long function, because passing arrays to one that is not inlined counts references per row.
    """
    out = np.empty(len(offsets) - 1, np.uint64)
    for i in range(len(out)):
        start = np.int64(offsets[i])
        end = np.int64(offsets[i + 1])
        size = end - start
        state = np.uint64(size) * _MIX_A
        if size >= 8:
            if size > 16:
                if size > 32:
                    for at in range(start + 8, end - 24, 8):
                        state = _absorb(state, words[at])
                    state = _absorb(state, words[end - 24])
                else:
                    state = _absorb(state, words[start + 8])
                state = _absorb(state, words[end - 16])
            state = _absorb(state, words[start])
            last = words[end - 8]
        elif size == 0:
            last = np.uint64(0)
        elif start + 8 <= len(data):
            last = words[start] & (_ALL >> (_BITS - (np.uint64(size) << _3)))
        else:  # too close to the end of the data to read a word
            last = np.uint64(0)
            for j in range(size):
                last = last | (np.uint64(data[start + j]) << (np.uint64(j) << _3))
        out[i] = mix(_absorb(state, last))
    return out


def hash_bytes(offsets: Offsets, data: Bytes) -> Hashes:
    """Hashes of `data[offsets[i]:offsets[i + 1]]`."""
    return _hash_spans(offsets, *bytes_and_words(data))


def hash_fixed(data: Bytes, width: int) -> Hashes:
    """Hashes of rows of `width` bytes, equal to those of `hash_bytes` for equal bytes."""
    offsets = np.arange(len(data) // width + 1, dtype=np.int64) * width
    offsets.flags.writeable = False  # like those of Arrow, so that one kernel serves both
    return hash_bytes(offsets, data)


def _combined(into: Hashes, other: Hashes) -> None:
    into[:] = plain_mix(into * _ROUND + other)


@kernel_of(stand_in=_combined)
def combine_hashes(into: Hashes, other: Hashes) -> None:
    """Replace `into` by the hashes of the pairs (into, other); (other, into) has another hash."""
    for i in range(len(into)):
        into[i] = mix(into[i] * _ROUND + other[i])


def mark_nulls(hashes: Hashes, bitmap: Bytes, offset: int) -> None:
    """Give rows whose validity bit is unset the hash of null."""
    first, end = offset >> 3, (offset + len(hashes) + 7) >> 3
    valid = np.unpackbits(bitmap[first:end], bitorder="little")[offset & 7 :][: len(hashes)]
    hashes[valid == 0] = NULL_HASH


# The table: `keys` and `codes` of 2^b slots, probed one slot after the other. A key's home is its
# top b bits, `key >> shift` with shift = 64 - b: its low bits may be the same for all rows where
# rows were split by `hash % n`. At most half the slots are in use. `by_code[code]` is the key of a
# code, `free[:counts[1]]` is a stack of released codes, and counts[0] is the first code never used.


@kernel
def encode_rows(
    hashes: Hashes, row: int, keys: Hashes, codes: Codes, shift: np.uint64, by_code: Hashes,
    free: Codes, counts: Ints, out: Codes, fresh_rows: Ints, fresh_codes: Codes,
) -> tuple[int, int]:  # fmt: skip
    """Find or insert from `row` on; returns where room ran out, and how many were inserted."""
    mask = np.uint64(len(keys) - 1)
    fresh = 0
    for i in range(row, len(hashes)):
        key = hashes[i]
        slot = key >> shift
        while codes[slot] >= 0 and keys[slot] != key:
            slot = (slot + _ONE) & mask
        code = codes[slot]
        if code < 0:
            if counts[1] > 0:
                counts[1] -= 1
                code = free[counts[1]]
            elif counts[0] < len(by_code):
                code = np.int32(counts[0])
                counts[0] += 1
            else:
                return i, fresh
            keys[slot] = key
            codes[slot] = code
            by_code[code] = key
            fresh_rows[fresh] = i
            fresh_codes[fresh] = code
            fresh += 1
        out[i] = code
    return len(hashes), fresh


@kernel
def find_rows(hashes: Hashes, keys: Hashes, codes: Codes, shift: np.uint64) -> Codes:
    """The code of each hash, or `EMPTY`."""
    mask = np.uint64(len(keys) - 1)
    out = np.empty(len(hashes), np.int32)
    for i in range(len(hashes)):
        key = hashes[i]
        slot = key >> shift
        while codes[slot] >= 0 and keys[slot] != key:
            slot = (slot + _ONE) & mask
        out[i] = codes[slot]
    return out


@kernel
def insert_pairs(
    hashes: Hashes, pair_codes: Codes, keys: Hashes, codes: Codes, shift: np.uint64
) -> None:
    """Insert distinct hashes under given codes, skipping those with code `EMPTY`."""
    mask = np.uint64(len(keys) - 1)
    for i in range(len(hashes)):
        if pair_codes[i] >= 0:
            slot = hashes[i] >> shift
            while codes[slot] >= 0:
                slot = (slot + _ONE) & mask
            keys[slot] = hashes[i]
            codes[slot] = pair_codes[i]


@kernel
def remove_codes(
    gone: Codes, keys: Hashes, codes: Codes, shift: np.uint64, by_code: Hashes, free: Codes,
    counts: Ints,
) -> int:  # fmt: skip
    """Remove codes and free them; returns how many were there."""
    mask = np.uint64(len(keys) - 1)
    removed = 0
    for i in range(len(gone)):
        code = gone[i]
        hole = by_code[code] >> shift
        while codes[hole] >= 0 and codes[hole] != code:
            hole = (hole + _ONE) & mask
        if codes[hole] < 0:
            continue
        # Close the gap: move back whatever was pushed past it, so that no probe stops early.
        slot = (hole + _ONE) & mask
        while codes[slot] >= 0:
            home = keys[slot] >> shift
            if (slot - home) & mask >= (slot - hole) & mask:
                keys[hole] = keys[slot]
                codes[hole] = codes[slot]
                hole = slot
            slot = (slot + _ONE) & mask
        codes[hole] = EMPTY
        free[counts[1]] = code
        counts[1] += 1
        removed += 1
    return removed


@kernel
def best_rows(
    hashes: Hashes, key: Ints, tie: Ints, last: Hashes, offsets: Ints
) -> tuple[Ints, Ints]:
    """The row of each hash of each run that counts, in order of first appearance; their offsets.

    It has the greatest ``key``, of those the greatest ``tie``, and of those the smallest ``last``.
    """
    rows = np.empty(len(hashes), np.int64)
    ends = np.zeros(len(offsets), np.int64)
    longest = 1
    for run in range(len(offsets) - 1):
        longest = max(longest, offsets[run + 1] - offsets[run])
    table = np.empty(4 * longest, np.int64)  # rows; -1 is an empty slot
    n = 0
    for run in range(len(offsets) - 1):
        bits = 1
        while (1 << bits) < 2 * (offsets[run + 1] - offsets[run]):
            bits += 1
        base, shift, mask = n, _BITS - np.uint64(bits), np.uint64((1 << bits) - 1)
        table[: 1 << bits] = EMPTY
        for i in range(offsets[run], offsets[run + 1]):
            slot = hashes[i] >> shift
            while table[slot] >= 0 and hashes[table[slot]] != hashes[i]:
                slot = (slot + _ONE) & mask
            j = table[slot]
            better = j < 0 or key[i] > key[j]
            if j < 0:
                rows[n] = slot
                n += 1
            elif key[i] == key[j]:
                better = tie[i] > tie[j] or (tie[i] == tie[j] and last[i] < last[j])
            if better:
                table[slot] = i
        for m in range(base, n):
            rows[m] = table[rows[m]]
        ends[run + 1] = n
    return rows[:n].copy(), ends
