"""FORMAT.md: its examples byte by byte, by the reader that is written from it and by the codec."""

from __future__ import annotations

import base64
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import assume, given, settings
from hypothesis import example as case
from hypothesis import strategies as st

import codec
from codec import caps as untrusted
from codec import errors, reader
from codec.errors import CodeTableError
from codec.record import alphabets as coded_of
from codec.record import container as container_of
from codec.record import record as records
from codec.record.header import FORMAT, MAX_STEP, RUN
from codec.record.residuals import read_residual, residual_parts
from codec.record.values import MAX_TEXT
from codec.scheme import context, huffman, runlength, uniform
from codec.scheme.coders import CODERS
from codec.scheme.context import ContextCode
from codec.scheme.limits import MAX_CLASSES, MAX_CONTEXTS, MAX_STREAM, UNIT
from codec.scheme.payload import MAX_UNITS, ROW_NBYTES, matrix_of
from codec.scheme.prefix import PrefixCode
from codec.scheme.stream import MAX_LEVELS, MAX_UNIFORM
from codec.scheme.survivors import packed
from codec.scheme.tables import CodeTable
from codec.state import edits, tree
from codec.state.family import MEASURES
from codec.state.tensors import CARRIER, TensorSpec
from tests.codec.chains import GOLDEN, save_all
from tests.codec.states import jumping_states
from tests.compaction import add_base

TEXT = (Path(codec.__file__).parent / "FORMAT.md").read_text(encoding="utf-8")


def example() -> bytes:
    """The bytes of the first example: the length, the header as text, the arrays."""
    length, header, arrays = re.split(r"^(?=\{)|(?<=\})\n", block_of("record"), flags=re.MULTILINE)
    return hexadecimal(length) + header.replace("\n", "").encode() + hexadecimal(arrays)


def block_of(language: str) -> str:
    """The text between the marks of an example."""
    (block,) = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return str(block)


def hexadecimal(block: str) -> bytes:
    """The bytes of an example: at the begin of lines, before two spaces and a note."""
    return bytes.fromhex("".join(re.findall(r"^((?:[0-9a-f]{2}| (?! ))+)(?:  .*)?$", block, re.M)))


def cursor(data: bytes) -> reader.Cursor:
    return reader.Cursor(np.frombuffer(data, np.uint8))


def words_of(head: reader.Head) -> dict[str, int]:
    """The code words of a head's table, first bit first, and what they stand for."""
    assert head.words is not None
    return {
        format(i, f"0{head.words.bits}b")[::-1][:length]: entry
        for i, (entry, length) in enumerate(zip(head.words.entries, head.words.lengths))
    }


def printed_changes() -> np.ndarray:
    """The changes that several examples code."""
    (printed,) = re.findall(r"^Changes (.*) and s = ", TEXT, re.MULTILINE)
    return np.array([float(x.replace("−", "-")) for x in printed.split()], np.float32)


def test_example_is_the_golden_record() -> None:
    assert example() == (GOLDEN / "run.lcc" / "00000001.delta.safetensors").read_bytes()


def test_example_says_what_stands_there() -> None:
    record = reader.record_of(example())
    assert (record.is_base, record.scope, record.step) == (False, "m", 1)
    assert {name: array.ravel()[0] for name, array in record.arrays.items()} == {"t/n": 8, "c": 4}
    left = reader.Cursor(record.arrays["c"])
    head = reader.head_of(left, 10, "", {})
    assert (head.k, head.classes, head.units, head.streams) == (4, 1, 1, [18])
    assert words_of(head) == {"0": 0, "10": 1, "110": 2, "111": 3}
    levels = reader.levels_of(head, left)
    assert levels.round(2).tolist() == np.float32([0, 0.79, -0.48, 0.44]).tolist()
    codes = reader.codes_of(head, levels, [np.zeros(10, np.float32)], left)
    assert f"The codes are {''.join(map(str, codes))}." in TEXT
    left.finish()
    notes = re.findall(r"^[0-9a-f ]+  (\S.*)$", block_of("record"), re.MULTILINE)
    assert notes == [
        f"length of the header: {int.from_bytes(example()[:8], 'little')}",
        "t/n = 8, exact",
        "4 levels, zero included; 1 class, a plain code; 1 unit; 2 bytes of table",
        "table: 0000 1000 | 010 010 1 and a bit unused",
        "streams: 18 bits",
        "levels: 0.79, -0.48, 0.44",
        "payload: 1 0 1 1 0 0 0 0 | 1 1 1 0 1 1 1 1 | 0 0 and 14 unused",
    ]


def test_example_of_a_residual() -> None:
    block = block_of("residual")
    data = hexadecimal(block)
    rows = {name: text.split() for name, text in re.findall(r"^([a-z]+) {2,}(.*)$", block, re.M)}
    old, new = (np.array([int(x, 16) for x in rows[key]], np.uint16) for key in ("old", "new"))
    assert reader.after_residual(old, "BF16", cursor(data)).tobytes() == new.tobytes()
    spec = TensorSpec("w", "BF16", (12,), False)
    got = read_residual(np.frombuffer(data, np.uint8), spec, "d/w")
    assert got.applied(old).tobytes() == new.tobytes()
    assert got.bounds == (123,)
    changed = [symbol != "0" for symbol in rows["symbols"]]
    assert changed == (old != new).tolist()
    ((again, parts),) = residual_parts({"w": got}).items()
    assert (again, b"".join(parts)) == ("d/w", data)


def test_example_of_tokens() -> None:
    block = block_of("tokens")
    rows = dict(re.findall(r"^(\w+) +(\S.*?)(?:   .*)?$", block, re.MULTILINE))
    codes = [int(c) for c in rows["codes"]]
    lengths = [3, 1, 2, *[0] * 33, 3]
    table, payload = (
        np.frombuffer(bytes.fromhex(rows[key]), np.uint8) for key in ("tables", "payload")
    )
    assert reader.code_lengths(table, 1 + 2 * 18) == lengths
    said = re.findall(r"^(?:stream|  ) +([01 ]+)   ", block, re.MULTILINE)
    bits = "".join(said).replace(" ", "")
    assert bits == "".join(map(str, np.unpackbits(payload, bitorder="little")[: len(bits)]))
    assert f"{len(bits)} bits; the last 10 zeros" in block
    words = reader.Words.unpacked(table, 3, 18, limited=False)
    head = reader.Head(3, False, 18, 1, words, [len(bits)])
    said = re.findall(r"(\d+): ([01]+)", block)
    assert {word: int(token) for token, word in said} == words_of(head)
    array = np.zeros(40, np.float32)
    assert reader.codes_of(head, array, [array], cursor(payload.tobytes())).tolist() == codes
    code_table = CodeTable.unpacked(table, 2, 18)
    sizes = np.array([len(bits)], np.uint32)
    prefix_code = PrefixCode(payload.view(np.uint32), sizes, 65536, code_table)
    levels = np.array([0, 2, 1], np.float32)
    encoded = codec.Encoded(prefix_code, levels, (40,), 2, "runlength")
    assert codec.decode(encoded).codes.tolist() == codes
    assert CodeTable(np.array(lengths, np.uint8), 18).packed.tobytes() == table.tobytes()


def test_example_of_uniform_steps() -> None:
    """Written by the codec."""
    block, changes = block_of("steps"), printed_changes()
    data = hexadecimal(block)
    tracker = codec.Tracker({"w": np.zeros(16, np.float32)}, coder="huffman", tolerance=0.05)
    delta = tracker.step({"w": changes})
    assert b"".join(coded_of.coded(delta.groups)["c"]) == data
    left, array = cursor(data), np.zeros(16, np.float32)
    head = reader.head_of(left, 16, "", {})
    assert (head.uniform, head.k, head.classes, head.streams) == (True, 10, 1, [34])
    levels = reader.levels_of(head, left)
    assert "streams: 34 bits" in block
    size = levels[1]
    assert (f"step size: {size:.7f}" in block, f"{size:.6f}…" in TEXT) == (True, True)
    codes = reader.codes_of(head, levels, [array], left)
    assert f"codes    {''.join(map(str, codes))}\n" in block
    array += levels[codes]
    assert array.tolist() == tracker.state["w"].tolist()
    assert np.abs(array - changes).max() <= 0.05


def test_example_of_a_context_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written by the codec."""
    block = block_of("context")
    data = hexadecimal(block)
    start = {"w": np.zeros((2, 8), np.float32)}
    tracker = codec.Tracker(start, tolerance=0.05, coder="context")
    delta = tracker.step({"w": printed_changes().reshape(2, 8)})
    assert b"".join(coded_of.coded(delta.groups)["c"]) == data
    read: list[tuple[int, ...]] = []

    class Watched(reader.ContextCode):
        def decide(self, context: int) -> bool:
            before = self._chances[context], self._span, self._window
            read.append((*before, super().decide(context)))
            return bool(read[-1][-1])

    monkeypatch.setattr(reader, "ContextCode", Watched)
    left, array = cursor(data), np.zeros((2, 8), np.float32)
    head = reader.head_of(left, 16, "", {})
    assert (head.uniform, head.k, head.classes, head.units) == (True, 10, 254, 1)
    levels = reader.levels_of(head, left)
    array += levels[reader.codes_of(head, levels, [array], left)].reshape(2, 8)
    left.finish()
    rows = re.findall(r"chance +(\d+)   span +(\d+)   window +(\d+)   ([01])$", block, re.MULTILINE)
    assert [tuple(map(int, row)) for row in rows] == read[:4]
    assert array.tolist() == tracker.state["w"].tolist()


@settings(max_examples=200)
@given(st.data())
def test_any_context_codes_agree(data: st.DataObject) -> None:
    """Steps and buckets, with octets and without, in one stream or several, of any matrices."""
    shape = st.lists(st.integers(0, 12), max_size=3).map(tuple)
    shapes = data.draw(st.lists(shape, min_size=1, max_size=4))
    matrices = tuple(map(matrix_of, shapes))
    n = sum(rows * columns for rows, columns in matrices)
    assume(n > 0)
    uniform = data.draw(st.booleans())
    k = data.draw(st.sampled_from([2, 3, 8, 16, MAX_UNIFORM] if uniform else [2, 3, 4, 8, 16, 40]))
    levels = np.arange(k, dtype=np.float32) / 1000
    if not uniform:
        exponents = data.draw(st.permutations(range(-1, k // 2 + 1)))
        both = [s * 1.5 * 2.0**e for e in exponents for s in (1, -1)]
        levels[1:] = data.draw(st.permutations(both))[: k - 1]
    many = data.draw(st.sampled_from([0, 1, 9]))
    code = st.sampled_from([0] * many + [1, min(2, k - 1), k - 1]) | st.integers(0, k - 1)
    drawn = data.draw(st.lists(code, min_size=n, max_size=n)) if n < 300 else None
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    codes = np.array(drawn or rng.integers(0, k, n) * (rng.random(n) < 0.2), np.uint16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "MOST_SINGLE", data.draw(st.sampled_from([0, 10**6])))
        for name, its_name in (("STREAM", "STREAM"), ("MOST_COLUMNS", "COLUMNS")):
            patch.setattr(context, name, data.draw(st.sampled_from([20, 10**6])))
            patch.setattr(reader, its_name, getattr(context, name))
        context._cut.cache_clear()
        with packed(codes) as survivors:
            payload = ContextCode.of(survivors, matrices, levels, uniform)
        assume(payload is not None)
        assert payload is not None
        payload.check(n, k)
        assert payload.codes(n, levels, uniform).tolist() == codes.tolist()
        bits = payload.element_bits(n, levels, uniform)
        assert bits.sum() == pytest.approx(payload.bits, abs=48 * payload.sizes.size)
        assert (bits >= 0).all()
        head = reader.Head(k, uniform, 254, payload.shared, None, payload.sizes.tolist())
        arrays = [np.zeros(shape, np.float32) for shape in shapes]
        left = cursor(payload.code.tobytes())
        assert reader.codes_of(head, levels, arrays, left).tolist() == codes.tolist()
        left.finish()
    context._cut.cache_clear()


@given(st.integers(1, 2**31 - 1), st.integers(2, MAX_UNIFORM))
def test_levels_are_multiples(bits: int, k: int) -> None:
    """Of any step size, subnormal ones too."""
    (size,) = np.array([bits], np.uint32).view(np.float32)
    if not np.isfinite(size * np.float64(MAX_UNIFORM)) or size > 1e34:
        size = np.float32(1e-45)
    head = reader.Head(k, True, 0, 0, None, [])
    levels = reader.levels_of(head, cursor(size.tobytes()))
    assert uniform.levels_of(size, k).tolist() == levels.tolist()


@given(st.binary(max_size=12), st.integers(0, 40))
@case(b"\x00", 3)  # eight zeros: a length of 0
@case(b"\x01\x00", 3)
@case(b"\x80", 3)  # a length that ends behind the end
@case(b"\x86\xff", 40)  # 16 zeros, and so on
@case(b"\x46", 40)
@case(b"\x46\x00", 40)
@case(b"\x92\x24\x49\x92\x24\x49\x00", 40)  # steps up to 15 and beyond
def test_any_bytes_as_a_table(packed: bytes, n: int) -> None:
    array = np.frombuffer(packed, np.uint8)
    try:
        expected = reader.code_lengths(array, n)
    except reader.ReadError:
        with pytest.raises(CodeTableError, match=f"not a list of at most {n} code lengths"):
            huffman.unpack_lengths(array, n)
    else:
        assert huffman.unpack_lengths(array, n).tolist() == expected


def test_runs_have_the_classes_of_the_table() -> None:
    """The table of runs in the text, and the formula below it, against the codec's own."""
    rows = [
        re.findall(rf"^\| {row} \|(.*)\|$", TEXT, re.MULTILINE)[-1].split("|")
        for row in ("run", "class", "extra bits")
    ]
    printed = [[cell.strip() for cell in row] for row in zip(*rows)]
    for run, kind, bits in (row for row in printed if row[0] != "…"):
        first, _, last = run.partition("–")
        assert reader.FIRST[int(kind)] == int(first)
        assert reader.EXTRA_BITS[int(kind)] == int(bits)
        assert int(last or first) == int(first) + 2 ** int(bits) - 1
    firsts, bits = (np.array(x[:84]) for x in (reader.FIRST, reader.EXTRA_BITS))
    assert [*runlength.FIRST_RUN] == firsts.tolist()
    assert [*runlength.EXTRA_BITS] == bits.tolist()
    assert firsts[83] + 2 ** bits[83] == MAX_STREAM


def test_examples_of_edits_and_numbers() -> None:
    torch = pytest.importorskip("torch")
    printed = re.findall(r"^    3 =(.*?)  +(\{.*)$", TEXT, re.MULTILINE)
    assert len(printed) == 1
    for edit, after in printed:
        assert reader.edited('{"l":[0.5,0.25]}', f"={edit}") == after
        assert edits.applied('{"l":[0.5,0.25]}', f"={edit}", 99) == after
    ((shown_text, _),) = re.findall(r'^    (\{"l":\[\{"s".*?)  +(\[.*)$', TEXT, re.MULTILINE)
    parts = tree.flatten(
        {"x": [np.float32(0.5), torch.tensor(1.0, dtype=torch.bfloat16)]}, lambda _: False
    )
    assert parts.values == (shown_text,)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain with every field: a base in a delta's place, another layout, tensors that are not
    finite, and records of more than 32 KiB."""
    path = tmp_path_factory.mktemp("fields") / "run.lcc"
    states: list[dict[str, Any]] = jumping_states(6, size=20_000, jumps=0.3)
    states[2]["v"] = np.full_like(states[2]["v"], np.nan)
    nested = [{"model": state, "epoch": i} for i, state in enumerate(states)]
    nested[5]["more"] = np.arange(5)
    nested[5]["noise"] = np.random.default_rng(0).integers(0, 256, 40_000, np.uint8)
    save_all(path, nested[:4], bits=3, scope="tensor")
    add_base(path)
    save_all(path, nested[4:], 4, resume=True)
    return path


def test_every_field_is_described(chain: Path) -> None:
    seen = Counter[tuple[str, str]]()
    paths = [*(GOLDEN / "run.lcc").iterdir(), *chain.glob("*.safetensors")]
    paths += (GOLDEN / "moments.lcc").glob("*.safetensors")
    for path in paths:
        record = reader.record_of(path.read_bytes())
        kind = path.name.split(".")[1]
        for field in record.fields:
            seen[field, kind] += 1
            where = rf"(all|(?:\w+, )*{kind}(?:, \w+)*|large records)"
            fields = rf"(?:`\w+`, )*`{field}`(?:, `\w+`)*"
            assert re.search(rf"^\| {fields} \| {where} \|", TEXT, re.MULTILINE), field
        (section,) = re.findall(rf"(## A {kind}.*?)\n## ", TEXT, re.DOTALL)
        for name in record.arrays:
            seen[name.partition("/")[0], kind] += 1
            general = f"{name[0]}/NAME" if name.startswith(("t/", "d/", "n/")) else name
            assert re.search(rf"^\|[^|]*`{general}`[^|]*\|", section, re.MULTILINE), name
    has = {"base": "replaces sent layout head chunks structure values t"}
    has["delta"] = "non_finite layout structure n c t small values"
    assert all(seen[name, kind] for kind, names in has.items() for name in names.split()), seen
    assert all(re.search(rf"\b{dtype}\b", TEXT) for dtype in CARRIER)
    assert {*reader.DTYPES, *reader.CARRIERS} == set(CARRIER)


def test_lines_have_one_form(chain: Path) -> None:
    digest = r"[\w-]{21}[AQgw]"
    keep = r"(?:[1-8]|all|[utd]?[0-9.]+(?:e-\d\d)?)"
    base = rf"3 b \d+ (?:-|[0-9a-f]{{16}}) (?:-|{digest}) {digest} {digest}"
    delta = rf"3 d[mt][rhc] \d+ {digest} {digest} {keep}(?: \d+,\d+)? {digest}"
    for path in [*GOLDEN.glob("*.lcc/*.safetensors"), *chain.glob("*.safetensors")]:
        (line,) = re.findall(rb'^.{8}\{"__metadata__":\{"lcc":"([^"]*)"', path.read_bytes(), re.S)
        assert re.fullmatch(rf"{base}|{delta}", line.decode()), line


def test_blocks(chain: Path) -> None:
    """The digests by which parts of a large record are checked."""
    large = set()
    for path in chain.glob("*.safetensors"):
        data = path.read_bytes()
        record, begin = reader.record_of(data), 8 + int.from_bytes(data[:8], "little")
        n = sum(array.nbytes for array in record.arrays.values())
        assert ("chunks" in record.fields) == ("head" in record.fields) == (n > 32_768)
        if n <= 32_768:
            continue
        large.add(record.is_base)
        head, body = record.fields["head"].encode(), data[-n:]
        blocks = [blake3(body[i : i + 16_384]).digest()[:16] for i in range(0, n, 16_384)]
        assert base64.b64decode(record.fields["chunks"]) == b"".join(blocks)
        assert data[begin:].startswith(b'{"head":"' + head + b'"')
        assert (len(data) - n - begin) % 8 == 0
        blank = data[:-n].replace(head, b"A" * 22, 1)
        blank = re.sub(rb' [\w-]{22}"\}', b" " + b"A" * 22 + b'"}', blank, count=1)
        assert reader.in_base64(blake3(blank).digest()[:16]).encode() == head
        if not record.is_base:
            are_large = [array.nbytes > 4096 for array in record.arrays.values()]
            assert are_large == sorted(are_large)
    assert large == {True, False}


RECORD_ERRORS = "ForeignRecord TruncatedRecord Version Digest MalformedRecord TrackDigest Parent "
RECORD_ERRORS += "Archive CodeTable Stream"


def test_errors_and_caps_are_described() -> None:
    assert TEXT.startswith(f"# The record format, version {FORMAT}\n")
    assert (str(FORMAT),) == reader.VERSIONS
    most = untrusted.MAX_JSON // 2**20
    marks = ", ".join(f"{most:,} `{mark}`" for mark, most in untrusted.MAX_MARKS.items())
    said = [
        *(f"{name}Error" for name in RECORD_ERRORS.split()),
        f"{edits.MAX_SPLICES:,} splices an edit",
        f"header 16 MiB, `more` {most} MiB, a layout's text {most} MiB",
        f"{untrusted.MAX_TENSORS:,} header entries",
        f"1 ≤ C ≤ {MAX_CONTEXTS}",
        f"{MAX_CONTEXTS} contexts a residual",
        f"{marks} in each",
        f"line {container_of.MAX_LINE:,} characters before the digest",
        f"{MAX_LEVELS} levels",
        f"{MAX_UNIFORM:,} levels in uniform steps",
        f"most ⌊{runlength.MAX_TOKENS - 1} / classes⌋",
        f"plus {coded_of.BY_STEPS:,} in uniform steps",
        f"`{MEASURES[0]}`, `{MEASURES[1]}` or `{MEASURES[2]}`",
        f"o is {uniform.OFFSET} for a budget and {uniform.NEAREST} for a tolerance",
        f"code words of {huffman.MAX_LENGTH} bits",
        f"{runlength.MAX_TOKENS:,} tokens, {MAX_CLASSES} classes",
        f"{UNIT:,} to {MAX_STREAM:,} elements a stream",
        f"class in {runlength.CLASS_BITS} bits",
        *(f"`{coder.letter}` {name}" for name, coder in CODERS.items()),
        f"texts {MAX_TEXT // 2**20} MiB",
        f"{records.MAX_LENGTHS:,} code lengths in `sent`",
        f"`RUN` | {RUN} hex digits",
    ]
    assert [fragment for fragment in said if fragment not in TEXT] == []
    assert all(hasattr(errors, f"{name}Error") for name in RECORD_ERRORS.split())
    assert (ROW_NBYTES, MAX_UNITS, MAX_STEP) == (6, 32, 2**63 - 1)
