"""Changes of a value as edits of its text: a log that grows costs only what was added.

    {"l":[0.5,0.25]}        the text before
    =14 0 6 ,0.125          an edit: skip 14 characters, drop none, insert 6
    {"l":[0.5,0.25,0.125]}  the text after

A *change* of a value is an edit, or its whole new text if that is shorter. See FORMAT.md.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from codec.caps import short
from codec.errors import PayloadError

MARK = "="  # before every edit; no JSON begins with it
MAX_SPLICES = 2**16  # in an edit: reading a splice takes far longer than its few bytes suggest
MAX_SLICE = 2**16  # characters or tokens compared at once; their copies stay in the cache
MAX_COMPARED = 2**22  # characters that are compared token by token, in a second or two
_SPLICE = re.compile(" ".join(["(0|[1-9][0-9]{0,8})"] * 3) + " ")
_TOKEN = re.compile("[^,]*,|[^,]+")

Splice = tuple[int, int, str]  # characters skipped since the last splice, dropped, inserted


def changes(old: Sequence[str], new: Sequence[str]) -> dict[int, str]:
    """Number of each value whose text changed -> its change."""
    pairs = enumerate(zip(old, new))
    return {i: change_of(before, after) for i, (before, after) in pairs if before != after}


def change_of(old: str, new: str) -> str:
    """The shorter of an edit and the new text."""
    splices = _splices(old, new)
    edit = MARK + "".join(f"{skip} {drop} {len(text)} {text}" for skip, drop, text in splices)
    return edit if len(edit) < len(new) and len(splices) <= MAX_SPLICES else new


def applied(text: str, change: str, most: int) -> str:
    """The text after a change.

    most: the limit on its characters. Raises PayloadError for an edit that does not fit the text.
    """
    text = _edited(text, change) if is_edit(change) else change
    if len(text) > most:
        raise PayloadError(f"an edit that leads to {len(text)} characters; the limit is {most}")
    return text


def is_edit(change: str) -> bool:
    """Whether a change is an edit, not a whole text."""
    return change.startswith(MARK)


def check_edit(edit: str) -> None:
    """Raise PayloadError unless this is an edit of some text."""
    for _ in _read(edit):
        pass


def _edited(text: str, edit: str) -> str:
    pieces, at = [], 0
    for skip, drop, inserted in _read(edit):
        begin = at + skip
        pieces += [text[at:begin], inserted]
        at = begin + drop
        if at > len(text):
            raise PayloadError(f"an edit up to character {at} of a value of {len(text)}")
    return "".join((*pieces, text[at:]))


def _read(edit: str) -> Iterator[Splice]:
    at, n = len(MARK), 0
    while at < len(edit) or not n:
        numbers = _SPLICE.match(edit, at)
        if numbers is None:
            raise PayloadError(f"an edit with {short(edit[at : at + 40])} instead of three numbers")
        skip, drop, length = map(int, numbers.groups())
        at, n = numbers.end() + length, n + 1
        if at > len(edit) or n > MAX_SPLICES:
            raise PayloadError(f"an edit of {len(edit)} characters that ends within splice {n}")
        yield skip, drop, edit[numbers.end() : at]


def _splices(old: str, new: str) -> list[Splice]:
    """The splices from one text to the other: a patience diff of the tokens between commas."""
    begin = _common(old, 0, new, 0)
    end = _common(old[begin:][::-1], 0, new[begin:][::-1], 0)
    dropped, inserted = len(old) - begin - end, new[begin : len(new) - end]
    if dropped + len(inserted) > MAX_COMPARED:
        return [(begin, dropped, inserted)]
    a = _TOKEN.findall(old, begin, len(old) - end)
    b = _TOKEN.findall(new, begin, len(new) - end)
    splices: list[Splice] = []
    skip = begin
    i = j = 0
    for match_i, match_j in (*_matches(a, b), (len(a), len(b))):
        if match_i < i or match_j < j:  # inside the last match
            continue
        before, after = "".join(a[i:match_i]), "".join(b[j:match_j])
        if before != after:
            first = _common(before, 0, after, 0)
            last = _common(before[first:][::-1], 0, after[first:][::-1], 0)
            dropped = len(before) - first - last
            splices.append((skip + first, dropped, after[first : len(after) - last]))
            skip = last
        else:
            skip += len(before)
        n = _common(a, match_i, b, match_j)
        skip += sum(map(len, a[match_i : match_i + n]))
        i, j = match_i + n, match_j + n
    return splices


def _matches(a: list[str], b: list[str]) -> list[tuple[int, int]]:
    """The longest sequence of matches, as positions in a and b that rise in both.

    A match is a pair of neighbouring tokens that occurs exactly once in each list.
    """
    in_a, in_b = _single(a), _single(b)
    pairs = [(in_a[pair], j) for pair, j in in_b.items() if pair in in_a]
    tails: list[int] = []  # by length: the smallest position in a at which a sequence ends,
    ends: list[int] = []  # and the number of the pair there
    before: list[int] = []  # by pair: the number of the pair before it in its sequence
    for n, (i, _) in enumerate(pairs):
        length = bisect_left(tails, i)
        tails[length : length + 1], ends[length : length + 1] = [i], [n]
        before.append(ends[length - 1] if length else -1)
    longest, n = [], ends[-1] if ends else -1
    while n >= 0:
        longest.append(pairs[n])
        n = before[n]
    return longest[::-1]


def _single(tokens: list[str]) -> dict[tuple[str, str], int]:
    """Each pair of neighbouring tokens that occurs once -> its position; positions rise."""
    positions: dict[tuple[str, str], int] = {}
    for i, pair in enumerate(pairwise(tokens)):
        positions[pair] = -1 if pair in positions else i
    return {pair: i for pair, i in positions.items() if i >= 0}


def _common(a: Any, i: int, b: Any, j: int) -> int:
    """Number of equal elements from these positions on, up to the first difference."""
    n, size, most = 0, 1, min(len(a) - i, len(b) - j)
    while n < most:
        size = min(size, most - n)
        if a[i + n : i + n + size] == b[j + n : j + n + size]:
            n, size = n + size, min(2 * size, MAX_SLICE)
        elif size == 1:
            break
        else:
            size = max(size // 4, 1)
    return n
