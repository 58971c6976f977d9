"""Code tables: their cost before anything is coded, and when the one sent last is used again."""

from __future__ import annotations

import bisect
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import codec
from codec.errors import CodeTableError
from codec.scheme import huffman, runlength, tables
from codec.scheme import stream as coding
from codec.scheme.coders import CODERS
from codec.scheme.limits import MAX_CLASSES
from codec.scheme.survivors import packed
from codec.scheme.tables import CodeTable, Counts
from tests.codec.scheme.made import lengths

U8 = np.uint8
FIRST = runlength.FIRST_RUN.tolist()


def counted(codes: list[int], k: int, tokens: bool = True) -> Counts:
    """Counts of a message that fits into one stream, one by one."""
    of_codes = np.bincount(codes, minlength=k).astype(np.int64)
    if not tokens:
        return Counts(of_codes, None)
    of_tokens, run = np.zeros((k - 1, MAX_CLASSES), np.int64), 0
    for code in codes:
        if code:
            of_tokens[code - 1, bisect.bisect_right(FIRST, run) - 1] += 1
        run = 0 if code else run + 1
    return Counts(of_codes, of_tokens)


def made_for(codes: list[int], k: int, coder: str = "runlength") -> CodeTable:
    """The table a first message gets."""
    choice = tables.choose(counted(codes, k, coder == "runlength"), None)
    assert not choice.cached
    return choice.table


def tokens_for(codes: list[int], k: int) -> CodeTable:
    """A table of tokens, even where the plain code would be cheaper."""
    counts = counted(codes, k)
    assert counts.tokens is not None
    return tables._table_of_tokens(counts)


def encoded(
    codes: list[int], k: int, coder: str = "runlength", previous: CodeTable | None = None
) -> codec.Encoded:
    """By the way a tracker takes; every code below k need not occur."""
    levels = np.concatenate(([0], 2.0 - np.arange(k - 1) / 1024)).astype(np.float32)
    array = np.array(codes, U8 if k <= 256 else np.uint16)
    of_codes = np.bincount(codes, minlength=k).astype(np.int64)
    with packed(array) as survivors:
        stage = coding.LosslessStage(coder, array.shape, previous=previous)
        e = coding.code(stage.message(survivors, of_codes, levels))[0]
    assert codec.decode(e).codes.tolist() == codes
    return e


messages = st.integers(2, 12).flatmap(
    lambda k: st.tuples(
        st.just(k),
        st.lists(
            st.one_of(st.just(0), st.just(0), st.integers(0, k - 1)), min_size=2, max_size=400
        ),
    )
)


def spread_out(codes: list[int], k: int) -> list[int]:
    """With at least two kinds of code, zeros among them."""
    return [0, 0, k - 1, *codes]


# Counting.


# Cost.


def by_hand(codes: list[int], k: int, table: CodeTable) -> int:
    """Bits of a message of one stream, token by token."""
    words, bits, run = table.lengths.tolist(), 0, 0
    for code in codes:
        if table.classes == 1:
            bits += words[code]
        elif code == 0:
            run += 1
        else:
            kind = bisect.bisect_right(FIRST, run) - 1
            token = 1 + (code - 1) * table.classes + kind
            has_word = kind < table.classes and token < len(words) and words[token]
            bits += words[token] if has_word else words[0] + 7 + (k - 2).bit_length()
            bits += int(runlength.EXTRA_BITS[kind])
            run = 0
    return bits


@given(messages, messages, st.sampled_from(["runlength", "huffman"]))
def test_cost_is_what_is_written(
    message: tuple[int, list[int]], other: tuple[int, list[int]], coder: str
) -> None:
    """With a table of its own, and with one made for something else, if it can be used."""
    k, codes = message[0], spread_out(message[1], message[0])
    before = spread_out(other[1], other[0])
    for previous in (
        None,
        made_for(before, other[0], coder),
        tokens_for(before, other[0]),
        made_for(codes, k, coder),
        tokens_for(codes, k),
    ):
        e = encoded(codes, k, coder, previous)
        assert e.table is not None
        assert e.payload_bits == by_hand(codes, k, e.table)
        assert e.cached == (e.table is previous)
        cost = e.table.cost(counted(codes, k, coder == "runlength"))
        assert cost == e.payload_bits
        if previous is not None:
            cost = previous.cost(counted(codes, k, coder == "runlength"))
            if cost is not None:
                assert cost == by_hand(codes, k, previous)


def test_cost_of_what_has_no_word() -> None:
    """A plain code cannot be used then; tokens have the escape."""
    plain = CodeTable(lengths(1, 2, 2), 1)
    assert plain.cost(counted([0, 1, 2], 3)) == 5
    assert plain.cost(counted([0, 1], 2)) is None  # of another number of levels
    assert plain.cost(counted([0, 1, 2, 3], 4)) is None
    assert CodeTable(lengths(1, 0, 1), 1).cost(counted([0, 1, 2], 3)) is None
    assert CodeTable(lengths(1, 0, 1), 1).cost(counted([0, 2, 2], 3)) == 3
    tokens = CodeTable(lengths(2, 1, 2), 2)
    assert tokens.cost(counted([0, 1], 2, tokens=False)) is None  # the paper's coder has none
    assert tokens.cost(counted([0, 1], 2)) == 2
    assert tokens.cost(counted([0, 0, 1], 2)) == 2 + 7 + 0  # class 2
    assert tokens.cost(counted([*[0] * 20, 1], 2)) == 2 + 7 + 0 + 2  # and two extra bits
    assert tokens.cost(counted([1, 2], 3)) == 1 + 2 + 7 + 1  # symbol 2 of 2
    assert tokens.cost(counted([1, 2, 3, 4, 5], 6)) == 1 + 4 * (2 + 7 + 3)


# Choosing.


@given(messages)
def test_the_cheaper_one_of_plain_code_and_tokens(message: tuple[int, list[int]]) -> None:
    """But for less than a word, which padding may decide."""
    k, codes = message[0], spread_out(message[1], message[0])
    counts = counted(codes, k)
    plain = CodeTable(huffman.code_lengths(counts.codes), 1)
    costs = [by_hand(codes, k, t) + 8 * t.packed.size for t in (plain, tokens_for(codes, k))]
    choice = tables.choose(counts, None)
    assert choice.bits == by_hand(codes, k, choice.table)
    assert min(costs) <= choice.bits + 8 * choice.table.packed.size < min(costs) + 32


def test_where_reuse_just_pays() -> None:
    """Counts one apart: it costs a bit less, as much, and a bit more than a new table."""
    previous = CodeTable(lengths(1, 2, 2), 1)
    seen = {}
    for rare in range(1, 40):  # code 1 has 2 bits, and would have 1 in a new table of 2 bytes
        counts = Counts(np.array([20, 20 + rare, 20]), None)
        new = huffman.code_lengths(counts.codes)
        assert new.tolist() == [2, 1, 2]
        costs_more = rare - 8 * 2
        choice = tables.choose(counts, previous)
        assert choice.cached == (costs_more <= 0)
        assert choice.saved_bits == max(-costs_more, 0)
        assert choice.bits == 100 + (2 * rare if choice.cached else rare)
        seen[costs_more] = choice.cached
    assert (seen[-1], seen[0], seen[1]) == (True, True, False)


def test_saved_bits_of_an_encoding() -> None:
    codes = [0, 0, 0, 1, 0, 2] * 30
    first = encoded(codes, 3)
    assert (first.cached, first.saved_bits, first.table_nbytes > 0) == (False, 0, True)
    second = encoded(codes, 3, previous=first.table)
    assert second.cached
    assert second.table is first.table
    assert second.payload.data.tobytes() == first.payload.data.tobytes()
    assert second.saved_bits == 8 * first.table_nbytes
    assert second.table_nbytes == 0
    assert second.nbytes == first.nbytes - first.table_nbytes


def test_the_paper_has_no_tokens() -> None:
    codes = [*[0] * 3000, 1] * 5
    table = encoded(codes, 2).table
    assert table is not None
    assert table.classes > 1
    e = encoded(codes, 2, "huffman", table)
    assert e.table is not None
    assert (e.cached, e.table.classes) == (False, 1)


def test_plain_code_where_runs_do_not_pay() -> None:
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 4, 4000).tolist()
    e = encoded(dense, 4)
    assert e.table is not None
    assert e.table.classes == 1
    again = encoded(dense[::-1], 4, previous=e.table)  # a plain table serves both coders
    assert again.cached
    assert encoded(dense, 4, "huffman", e.table).cached


# The table of tokens.


def test_as_many_classes_as_occur_but_two() -> None:
    assert tokens_for([1, 1, 1], 2).classes == 2
    assert tokens_for([0, 1], 2).classes == 2
    assert tokens_for([*[0] * 15, 1], 2).classes == 16
    assert tokens_for([*[0] * 2000, 1, 2], 3).classes == bisect.bisect_right(FIRST, 2000)
    wide = tokens_for([*[0] * 2000, *range(511)], 511)
    assert (wide.classes, wide.n_symbols) == (8, 510)
    assert wide.lengths.size == 1 + 510 * 8


@given(st.lists(st.integers(0, 10**6), min_size=4, max_size=40))
def test_words_of_tokens_are_the_shortest(counts: list[int]) -> None:
    tokens = np.zeros((4, MAX_CLASSES), np.int64)
    tokens.reshape(-1)[: len(counts)] = counts
    tokens[0, 0] += 1
    used = tables._table_of_tokens(Counts(np.ones(5, np.int64), tokens))
    with_escape = np.concatenate(([1], tokens[:, : used.classes].reshape(-1)))
    assert used.lengths.tolist() == huffman.code_lengths(with_escape).tolist()
    assert huffman.checked_lengths(used.lengths).any()


def test_fewer_symbols_and_more_classes() -> None:
    """In uniform steps far levels are rare: they escape, and long runs keep their tokens. In
    exponent buckets every symbol has tokens, whatever the runs."""
    rng = np.random.default_rng(0)
    q = np.rint(rng.standard_t(2, size=60_000) * 3 * (rng.random(60_000) < 0.1)).clip(-999, 999)
    codes = np.where(q > 0, 2 * q - 1, -2 * q).astype(int).tolist()
    codes[77] = 1998
    by_steps = replace(counted(codes, 1999), uniform=True)
    free, bound = (tables._table_of_tokens(c) for c in (by_steps, counted(codes, 1999)))
    assert (bound.classes, bound.n_symbols) == (2, 1998)
    assert free.classes > 8
    assert free.n_symbols == runlength.n_symbols(free.classes) < 1998
    most, least = (table.cost(by_steps) or 0 for table in (bound, free))
    assert least < 0.8 * most
    back = CodeTable.unpacked(free.packed, 1998, free.classes, uniform=True)
    assert back.lengths.tolist() == free.lengths.tolist()
    with pytest.raises(CodeTableError, match="classes of runs with 1998 symbols"):
        CodeTable.unpacked(free.packed, 1998, free.classes)


def test_one_value_for_all_has_a_word() -> None:
    """A code of one value that is not the last but one: with no word there would be no bits."""
    for coder in CODERS:
        e = encoded([7] * 300, 8, coder)
        assert e.payload_bits >= 300 or e.table.classes > 1  # type: ignore[union-attr]


# On disk.


@pytest.mark.parametrize(
    ("table", "n_symbols", "classes", "message"),
    [
        (lengths(1, 2, 2), 2, 0, "0 classes of runs with 2 symbols"),
        (lengths(1, 2, 2), 2, -1, "-1 classes of runs"),
        (lengths(1, 1), 1, 85, "85 classes of runs with 1 symbols"),
        (lengths(1, 1), 510, 9, "9 classes of runs with 510 symbols"),
        (lengths(1), 0, 2, "2 classes of runs with 0 symbols"),
        (lengths(1, 2, 2), 1, 1, "not a list of at most 2 code lengths"),
        (lengths(1, 2, 3), 2, 1, "not a complete prefix code"),
        (lengths(0, 0, 0), 2, 1, "3 levels cannot all lack a code word"),
        (lengths(0, 1, 1), 1, 2, "the escape has no code word"),
    ],
)
def test_what_is_no_table(table: np.ndarray, n_symbols: int, classes: int, message: str) -> None:
    with pytest.raises(CodeTableError, match=message):
        CodeTable.unpacked(huffman.pack_lengths(table), n_symbols, classes)


# A chain of steps.


def test_prepared_but_not_committed_steps_leave_the_cache() -> None:
    """Only what was sent counts as sent."""
    rng = np.random.default_rng(0)
    tracker = codec.Tracker({"w": np.zeros(5000, np.float32)}, 2)
    first = {"w": rng.normal(size=5000).astype(np.float32)}
    step = tracker.prepare(first)
    assert not step.groups[0].encoded.cached
    assert tracker.track.tables == {}
    again = tracker.prepare(first)
    assert not again.groups[0].encoded.cached
    tracker.commit(again)
    assert tracker.track.tables == {"": again.groups[0].encoded.table}
    moved = {"w": tracker.state["w"] + first["w"][::-1]}
    assert tracker.prepare(moved).groups[0].encoded.cached
