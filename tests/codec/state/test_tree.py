"""Nested states taken apart and put together: the same again, whatever is in them."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from codec.errors import DTypeError, StateMismatchError
from codec.state.tree import (
    MAX_DEPTH,
    Parts,
    StructureError,
    check_value,
    flatten,
    leaves,
    unflatten,
)
from tests.bits import same

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**80), 2**80),
    st.floats(),
    st.binary(max_size=9),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
)
keys = scalars.filter(lambda k: not isinstance(k, bytes) and k == k)
tensors = st.integers(0, 5).map(lambda n: np.arange(float(n)))
numbers = st.integers(0, 99).map(np.float32) | st.integers(0, 99).map(np.array)


def containers(child: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.dictionaries(keys, child, max_size=4)
    return st.one_of(
        items,
        items.map(OrderedDict),
        st.lists(child, max_size=4),
        st.lists(child, max_size=4).map(tuple),
        st.dictionaries(keys, st.integers()).map(Counter),
    )


trees = st.recursive(
    st.one_of(scalars, tensors, numbers, st.binary().map(bytearray)), containers, max_leaves=30
)


def never(_name: str) -> bool:
    return False


def is_element(state: Any, name: str) -> bool:
    """Whether what has this name stands in a list or tuple."""
    *path, _ = name.split("/")
    for part in path:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(state, list | tuple):
            state = state[int(part)]
        else:
            (state,) = (child for key, child in state.items() if str(key) == part)
    return isinstance(state, list | tuple)


def distinct(state: Any) -> bool:
    """No two keys of a mapping are written alike, as 1 and "1" are."""
    if isinstance(state, dict):
        return len({str(k) for k in state}) == len(state) and all(map(distinct, state.values()))
    return all(map(distinct, state)) if isinstance(state, list | tuple) else True


@given(st.dictionaries(keys, trees, max_size=4).filter(distinct))
def test_there_and_back(state: dict[Any, Any]) -> None:
    parts = flatten(state, never)
    for text in (parts.structure, *parts.values):
        assert text.isascii()
        assert "\n" not in text
    assert same(unflatten(parts), state)
    assert flatten(unflatten(parts), never).structure == parts.structure
    assert list(parts.tensors) == [
        name
        for name, value in leaves(state)
        if isinstance(value, np.ndarray) and (value.ndim or not is_element(state, name))
    ]


def test_example_of_the_docstring() -> None:
    w = np.ones(3)
    parts = flatten({"model": {"w": w}, "epoch": 3}, never)
    assert parts.structure == '{"d":[["model",{"d":[["w",{"t":0}]]}],["epoch",{"v":0}]]}'
    assert list(parts.tensors) == ["model/w"]
    assert parts.tensors["model/w"] is w
    assert parts.values == ("3",)


def test_a_dict_of_tensors_needs_no_structure() -> None:
    for state in ({}, {"a": np.ones(2), "": np.ones(1)}):
        parts = flatten(state, never)
        assert (parts.structure, parts.values) == ("", ())
        assert same(unflatten(parts), state)
    for other in (OrderedDict(a=np.ones(2)), {1: np.ones(2)}, {"a/b": np.ones(2)}, {"a": 1}):
        assert flatten(other, never).structure != ""


def test_names() -> None:
    """No two of them are the same, whatever the keys."""
    one = np.ones(1)
    state = {"": {"w": one + 1, "": one + 2}, "w": one + 3, "/": [one + 4], "~1": one + 5, 7: one}
    assert list(flatten(state, never).tensors) == ["/w", "/", "w", "~1/0", "~01", "7"]
    for clash in ({1: 0, "1": 0}, {None: one, "None": 0}, {"x": {True: 1, "True": 2}}):
        with pytest.raises(StateMismatchError, match=r"two keys of .* are written .*rename one"):
            flatten(clash, never)


def test_a_subtree_without_tensors_is_one_value() -> None:
    """So that what grows does not change the structure."""
    states = [{"w": np.ones(2), "log": [{"loss": i} for i in range(n)]} for n in (0, 1, 5)]
    parts = [flatten(state, never) for state in states]
    assert len({p.structure for p in parts}) == 1
    assert [len(p.values) for p in parts] == [1, 1, 1]


def test_shared_memory_is_one_tensor() -> None:
    w, t = np.arange(6.0), torch.arange(6.0)
    state = {"a": w, "b": w, "view": w[:], "half": w[:3], "again": w[:3]}
    state |= {"other_shape": w.reshape(2, 3), "bits": w.view(np.int64), "copy": w.copy()}
    state |= {"empty": w[:0], "empty_too": w[:0], "t": t, "tied": t.view(6)}
    state |= {"turned": t.reshape(2, 3).T, "conj": torch.tensor([1j])}
    state["conj_too"] = state["conj"].conj()
    parts = flatten(state, never)
    names = "a half other_shape bits copy empty empty_too t turned conj conj_too"
    assert list(parts.tensors) == names.split()
    back = unflatten(parts)
    assert back["a"] is back["b"] is back["view"]
    assert back["half"] is back["again"]
    assert back["t"] is back["tied"]


def test_what_is_skipped() -> None:
    state = {"a": {"b": object(), "c": 1}, "l": [np.ones(1), object()], "m": {"n": [object(), 2]}}
    parts = flatten(state, {"a/b", "l/1", "m/n/0"}.__contains__)
    assert same(unflatten(parts), {"a": {"c": 1}, "l": [np.ones(1), None], "m": {"n": [None, 2]}})


class Pair(NamedTuple):
    a: int
    b: int


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (3, DTypeError, "a state is a mapping; got a int"),
        ([np.ones(1)], DTypeError, "a state is a mapping; got a list"),
        ({"a": {"b": object()}}, DTypeError, r"'a/b' is a object; .*policy={'a/b': 'skip'}"),
        ({"a": Pair(1, 2)}, DTypeError, "'a' is a Pair"),
        ({"a": {1, 2}}, DTypeError, "'a' is a set"),
        ({"a": 1j}, DTypeError, "'a' is a complex"),
        ({"a": print}, DTypeError, "'a' is a builtin_function"),
        ({"a": ["\ud800"]}, DTypeError, "a text or key at 'a/0' is not Unicode"),
        ({"\ud800": 1}, DTypeError, "a text or key at the state is not Unicode"),
        ({(1, 2): 1}, StateMismatchError, "a key of the state is a tuple; keys are"),
        ({"a": {b"x": np.ones(1)}}, StateMismatchError, "a key of 'a' is a bytes"),
    ],
)
def test_what_cannot_be_stored(state: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        flatten(state, never)


def test_depth() -> None:
    for leaf in (1, np.ones(1)):
        state: Any = {"x": leaf}
        for _ in range(MAX_DEPTH - 1):
            state = {"x": state}
        assert same(unflatten(flatten(state, never)), state)
        with pytest.raises(StateMismatchError, match=f"more than {MAX_DEPTH} containers deep"):
            flatten({"x": [[state]]}, never)
    endless: dict[str, Any] = {}
    endless["x"] = endless
    with pytest.raises(StateMismatchError, match="containers deep"):
        flatten(endless, never)


HOSTILE = r"""
x [] 3 {} {"d":[],"o":[]} {"t":0} {"v":0} {"l":[]} {"d":3} {"d":[1]} {"d":[["a"]]} {"z":[]}
{"d":[["a",{"t":2}]]} {"d":[["a",{"t":-1}]]} {"d":[["a",{"t":true}]]} {"d":[["a",{"t":0.0}]]}
{"d":[["a",{"v":1}]]} {"d":[["a",{"x":1}]]} {"d":[["a",{"t":0}],["a",{"t":0}]]}
{"d":[[[1],{"t":0}]]} {"d":[[{"l":[]},{"t":0}]]} {"d":[[{"p":[]},{"t":0}]]}
{"d":[["a",{"l":{}}]]} {"n":[["a",{"q":0}]]} {"d":[["a",{"v":0}],["b",{"v":0}]]}
"""


@pytest.mark.parametrize("structure", [*HOSTILE.split(), "[" * 5000, '{"l":[' * 200 + "]}" * 200])
def test_hostile_structures(structure: str) -> None:
    with pytest.raises(StructureError):
        unflatten(Parts(structure, {"a": 1, "b": 2}, ("1",)))


HOSTILE_VALUES = r"""
nan [1] {} {"i":"x"} {"i":[]} {"f":"one"} {"f":1} {"f":[]} {"s":["F32","AAAAPw=="],"d":[]}
{"s":["F32","AAAA"]} {"s":["BF16","gD8="]} {"s":["F33","AAAAPw=="]} {"s":"F32"} {"b":"?"} {"b":3}
{"a":["F8_E4M3","AA=="]} {"t":["F32","?"]} {"t":["F32",5]} {"t":[[],"AA=="]} {"l":[{"v":0}]}
{"t":["BOOL","AA==",1]} {"t":["BOOL",["AA=="]]} {"s":{"BOOL":0,"AA==":1}} {"d":[1]} {"l":3} {"t":0}
{"d":[[{"s":["BOOL","AA=="]},1]]} {"d":[[{"t":["BOOL","AA=="]},1]]} {"d":[[{"d":[]},1]]}
"""
ALIKE = '{"d":[' + ",".join(f"[{i * (2**61 - 1)},0]" for i in range(104)) + "]}"
DEEP = '{"l":[' * 200 + "1" + "]}" * 200


@pytest.mark.parametrize("value", ["", *HOSTILE_VALUES.split(), "[" * 5000, DEEP, ALIKE])
def test_hostile_values(value: str) -> None:
    with pytest.raises(StructureError):
        check_value(value)


def test_integers_that_cannot_be_read_again() -> None:
    """Python reads 4,300 digits of a text at most."""
    for digits in (4000, 4200):
        state = {"big": -(10**digits), 10**digits: 1}
        assert unflatten(flatten(state, never)) == state
    for state in ({"big": 10**4400}, {10**4400: 1}):
        with pytest.raises((DTypeError, StateMismatchError), match="integer of 14617"):
            flatten(state, never)


@given(
    st.text(max_size=40),
    st.recursive(
        st.one_of(st.none(), st.integers(), st.text(max_size=3)),
        lambda x: st.one_of(
            st.lists(x, max_size=3), st.dictionaries(st.sampled_from("dlptvifbsa"), x)
        ),
    ),
)
def test_any_text(text: str, value: Any) -> None:
    """It is read, or refused by name."""
    for written in (text, json.dumps(value)):
        for read in (check_value, lambda t: unflatten(Parts(t, {"a": 1}, ("1",)))):
            try:
                read(written)
            except StructureError:
                continue
