"""A process of its own that reads torch's .pt files and writes their weights as .safetensors.

torch.load with weights_only=True runs no code of the file, but a file may still ask for any amount
of memory or time. This process has a memory limit, and its parent ends it after some time.

It writes {} once it is ready. Then it reads one JSON object a line, {"source": …, "target": …},
and writes one: {"under": […], "left_out": […]} or {"error": "a sentence that does not name the
file"}. It imports nothing of this project: it starts faster.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

KEYS = ("model", "model_state_dict", "state_dict", "module", "net", "network", "weights")
RESERVED = "__metadata__"  # not a tensor in a .safetensors file
MOST_KEYS = 100_000
DEEP = 3  # keys down to the weights
TIES = 2  # tensors may take so many times the file, which stores one with two names once
MEMORY = 6  # times the file: as read, as copied, as written
SPARE = 512 * 2**20  # bytes of memory beyond that


class Refused(Exception):  # noqa: N818 - an answer about a file
    """Why a file is not accepted."""


def main() -> None:
    """Answer each line."""
    import torch
    from safetensors.torch import save_file

    torch.set_num_threads(1)
    at_rest = _address_space()
    print("{}", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            nbytes = os.stat(asked["source"]).st_size
            _limit(at_rest + MEMORY * nbytes + SPARE)
            weights, under, left_out = read(torch, asked["source"], nbytes)
            save_file(weights, asked["target"])
            answer: dict[str, Any] = {"under": under, "left_out": left_out}
        except Refused as exc:
            answer = {"error": str(exc)}
        except MemoryError:
            answer = {"error": "asks for much more memory than it has bytes"}
        except Exception as exc:  # torch and pickle raise whatever a damaged file leads them to
            answer = {"error": f"cannot be read as weights only: {_reason(exc)}"}
        print(json.dumps(_printable(answer)), flush=True)


def read(torch: Any, source: str, nbytes: int) -> tuple[dict[str, Any], list[str], list[str]]:
    """Tensors by name, the keys that lead to them, and the names of everything else."""
    state = torch.load(source, map_location="cpu", weights_only=True)
    under: list[str] = []
    left_out: list[str] = []
    while True:
        if not isinstance(state, Mapping):
            raise Refused(f"holds a {type(state).__name__}, where weights have names")
        if len(state) > MOST_KEYS or not all(isinstance(key, str) for key in state):
            raise Refused("has keys that are no texts, or more than 100,000 of them")
        inner = next((k for k in KEYS if isinstance(state.get(k), Mapping) and state[k]), None)
        if inner is None:
            break
        if len(under) == DEEP:
            raise Refused("holds weights within weights within weights")
        left_out += ["/".join([*under, key])[:200] for key in state if key != inner]
        under.append(inner)
        state = state[inner]
    weights: dict[str, Any] = {}
    total = 0
    for name in sorted(state):
        value = state[name]
        if not isinstance(value, torch.Tensor):
            left_out.append("/".join([*under, name])[:200])
            continue
        if name == RESERVED or not _is_unicode(name):
            raise Refused(f"has a key that .safetensors files cannot hold: {name[:80]!r}")
        if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
            raise Refused(f"holds a tensor that is sparse, quantized or without values: {name!r}")
        total += value.numel() * value.element_size()
        if total > TIES * nbytes:  # one value may stand for many
            raise Refused("holds tensors that take more than twice as many bytes as the file")
        weights[name] = value
    if not weights:
        others = ", ".join(sorted(state)[:5])
        raise Refused(f"holds no tensors{f', but {others}' if others else ''}"[:300])
    own = {name: value.detach().contiguous().clone() for name, value in weights.items()}
    return own, under, left_out[:20]


def _is_unicode(text: str) -> bool:
    """Whether it can be written to a file: a pickle's texts may have lone surrogates."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _printable(value: Any) -> Any:
    """The same with lone surrogates escaped."""
    if isinstance(value, dict):
        return {key: _printable(own) for key, own in value.items()}
    if isinstance(value, list):
        return [_printable(own) for own in value]
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _reason(exc: Exception) -> str:
    """What is wrong, in one line, without torch's advice on how to load it anyway."""
    refused = re.search(r"nsupported (?:global: )?GLOBAL ([\w.]+)", str(exc))
    if refused:
        return (
            f"it asks to run {refused[1][:80]}, and no code of a file is run here; save only the "
            "weights: torch.save(model.state_dict(), …)"
        )
    found = re.search(r"WeightsUnpickler error:\s*(.+)", str(exc)) or re.search(r"\S.*", str(exc))
    return found[found.re.groups].strip().rstrip(".")[:200] if found else type(exc).__name__


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


if __name__ == "__main__":
    main()
