"""A separate process that reads torch's .pt files and writes their content as .safetensors.

torch.load with weights_only=True runs no code of the file, but a file may still ask for any amount
of memory or time. This process has a memory limit, and its parent ends it after some time.

It writes {} once it is ready. Then it reads one JSON object a line, {"source": …, "target": …},
and writes one: {"parts": {…}, "left_out": {…}} or {"error": "a sentence that does not name the
file"}. "parts" maps each outermost key to the bytes of the tensors below it; it is {} for a flat
state. "left_out" maps each outermost key that no chain can hold to the reason.

The target has the tensors by their names in the tree. Its metadata has, as JSON, the structure and
the values of `codec.inspect.Parts`, and the tensors' names in their order.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from codec.errors import InputError
from codec.inspect import Parts, flatten, is_tensor, is_unicode, leaves

METADATA = "state"  # the key of this JSON in the metadata
RESERVED = "__metadata__"  # not a tensor in a .safetensors file
MOST_KEYS = 100_000
MOST_PARTS = 50  # outermost keys to choose from; with more there is no choice
MOST_NAME = 1000  # characters of a tensor's name
MOST_TEXT = 8 * 2**20  # characters of structure, values and names: half of what a header may have
MOST_LEFT_OUT = 100  # outermost keys, all of which the receipt names
TIES = 2  # times the file that tensors may take: it stores a tensor with two names once
MEMORY = 6  # times the file: as read, as copied, as written
SPARE = 512 * 2**20  # bytes of memory beyond that


class Refused(Exception):  # noqa: N818 - an answer about a file
    """Why a file, or a part of it, is not accepted."""


def main() -> None:
    """Answer each line."""
    import torch
    from safetensors.torch import save_file

    torch.set_num_threads(1)
    at_rest = _address_space()
    print("{}", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            nbytes = os.stat(request["source"]).st_size
            _limit(at_rest + MEMORY * nbytes + SPARE)
            parts, answer = read(torch, request["source"], nbytes)
            copies = {n: t.detach().contiguous().clone() for n, t in parts.tensors.items()}
            packed = [parts.structure, parts.values, list(parts.tensors)]
            save_file(copies, request["target"], {METADATA: json.dumps(packed)})
        except Refused as exc:
            answer = {"error": str(exc)}
        except MemoryError:
            answer = {"error": "asks for much more memory than it has bytes"}
        except Exception as exc:  # torch and pickle raise whatever a damaged file leads them to
            answer = {"error": f"cannot be read as weights only: {_reason(exc)}"}
        print(json.dumps(_printable(answer)), flush=True)


def read(torch: Any, source: str, nbytes: int) -> tuple[Parts, dict[str, Any]]:
    """Everything in a file that a chain can hold, and the answer to the parent process."""
    state = torch.load(source, map_location="cpu", weights_only=True)
    if not isinstance(state, Mapping):
        raise Refused(f"holds a {type(state).__name__}, not a mapping of names to tensors")
    if len(state) > MOST_KEYS:
        raise Refused("has more than 100,000 keys")
    nested = any(isinstance(value, Mapping | list | tuple) for value in state.values())
    below: dict[str, int] = {}
    left_out: dict[str, str] = {}
    for key in list(state):
        try:
            below[str(key)] = _tensor_nbytes(_flattened(torch, {key: state[key]}))
        except (InputError, Refused) as exc:
            left_out[str(key)] = str(exc).partition(";")[0][:200]
            del state[key]  # type: ignore[attr-defined]
    if left_out and not state:
        raise Refused(next(iter(left_out.values())))
    if len(left_out) > MOST_LEFT_OUT or any(len(key) > MOST_NAME for key in left_out):
        raise Refused("holds too much besides tensors, numbers, texts, mappings, lists and tuples")
    parts = _flattened(torch, state)
    if not parts.tensors:
        keys = ", ".join(sorted(below)[:5])
        raise Refused(f"holds no tensors{f', but {keys}' if keys else ''}"[:300])
    if _tensor_nbytes(parts) > TIES * nbytes:  # one value may stand for many
        raise Refused("holds tensors that take more than twice as many bytes as the file")
    if len(parts.structure) + sum(map(len, (*parts.values, *parts.tensors))) > MOST_TEXT:
        raise Refused(f"has more than {MOST_TEXT // 2**20} MiB of names and values beside tensors")
    choices = below if nested and len(below) <= MOST_PARTS else {}
    return parts, {"parts": choices, "left_out": left_out}


def _flattened(torch: Any, state: Mapping[Any, Any]) -> Parts:
    """The parts of a state. Raises InputError or Refused for what no chain can hold."""
    for name, value in leaves(state):
        if is_tensor(value) and (
            value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized
        ):
            raise Refused(f"holds a tensor that is sparse, quantized or without values: {name!r}")
        if is_tensor(value) and (name == RESERVED or not is_unicode(name)):
            raise Refused(f"has a key that .safetensors files cannot hold: {name[:80]!r}")
        if len(name) > MOST_NAME:
            raise Refused(f"has a key of more than {MOST_NAME} characters: {name[:80]!r}…")
    return flatten(state, lambda _name: False)


def _tensor_nbytes(parts: Parts) -> int:
    return sum(t.numel() * t.element_size() for t in parts.tensors.values())


def _printable(value: Any) -> Any:
    """The value with lone surrogates in its texts escaped."""
    if isinstance(value, dict):
        return {_printable(key): _printable(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_printable(member) for member in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _reason(exc: Exception) -> str:
    """What is wrong, in one line, without torch's advice on how to load it anyway."""
    function = re.search(r"nsupported (?:global: )?GLOBAL ([\w.]+)", str(exc))
    if function:
        return (
            f"it asks to run {function[1][:80]}, and no code of a file is run here; save only the "
            "weights: torch.save(model.state_dict(), …)"
        )
    line = re.search(r"WeightsUnpickler error:\s*(.+)", str(exc)) or re.search(r"\S.*", str(exc))
    return line[line.re.groups].strip().rstrip(".")[:200] if line else type(exc).__name__


def _address_space() -> int:
    """Bytes that this process has mapped."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 8 * 2**30


def _limit(nbytes: int) -> None:
    """Limit the memory that can be mapped, where the system can."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (nbytes, resource.RLIM_INFINITY))
