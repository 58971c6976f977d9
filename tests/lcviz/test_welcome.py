"""The first seconds: what is there before the heavy imports, and what it is made of."""

import json
import subprocess
import sys

import pytest
from streamlit.testing.v1 import AppTest

from lcviz import welcome
from lcviz.play import given
from lcviz.record_example import recorded
from lcviz.ui import navigation
from tests.lcviz.common import Patch


def test_the_recording_is_the_example() -> None:
    """If not: python -m lcviz.record_example."""
    assert given.recorded() == json.loads(json.dumps(recorded()))


def test_nothing_heavy_is_imported_for_it() -> None:
    code = (
        "import sys, lcviz.welcome\n"
        "heavy = ('torch', 'numba', 'pandas', 'codec', 'demo_models')\n"
        "print(*(m for m in heavy if m in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("name", navigation.PAGES)
def test_while_everything_is_imported(monkeypatch: Patch, name: str) -> None:
    def script(name: str) -> None:
        from lcviz import welcome

        welcome.show(name)

    monkeypatch.setattr(welcome, "loaded", lambda: False)
    page = AppTest.from_function(script, args=(name,), default_timeout=60).run()
    assert not page.exception
    told = [json.loads(e.proto.json) for e in page.get("bidi_component") if e.proto.json]
    if name == "live":
        ((words,),) = (one for one in told if one)
        assert (words["use"], words["problem"], words["wrong"]) == (None, "", "")
    elif name == "learn":
        assert told == [[given.recorded()["learn"]]]
    else:
        assert page.info[0].value.startswith("The server has just started")
