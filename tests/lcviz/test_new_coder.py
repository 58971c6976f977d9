"""A coder that is listed in CODERS appears on every page without another line of code."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

LISTED = """
from codec.scheme import coders
from tests.toy_coder import TOY, Zipped

coders.CODERS["toy"] = TOY
coders.PAYLOADS = (*coders.PAYLOADS, Zipped)
"""
PAGES = """
import sys
from pathlib import Path

from streamlit.testing.v1 import AppTest

from codec import Coding
from codec.inspect import layout_of
from lcviz.lab.tuner.candidates import Grid
from lcviz.live.bits_picture import bits_picture
from lcviz.live.step_record import saved_record
from lcviz.report.chain_figures import figures_of
from lcviz.run.run import Run
from lcviz.run.snapshot import RunSettings
from tests.worded import worded


def form():
    import streamlit as st

    from codec import Coding
    from lcviz.ui.coding_form import coding_form

    st.write(coding_form(default=Coding(2, coder="toy")).describe())


folder = Path(sys.argv[1])
settings = RunSettings(
    "logistic-regression", data="digits", lr=0.1, batch_size=64, interval=1, stop_after=1,
    coding=Coding(2, coder="toy"),
)
run = Run("toy", settings, folder / "run.lcc")
run.play()
snapshot = run.wait(60)
assert snapshot.status == "finished", snapshot
record = saved_record(run, snapshot.newest)
picture = bits_picture(record)
data = worded(picture.data)
assert ["toy", "toy code"] in data["coders"], data["coders"]
assert [row["name"] for row in data["compare"] if row["here"]] == ["toy coder"]
assert figures_of(folder / "run.lcc").settings["Coder"] == "Toy coder"
run.close()
assert any(s.coding.coder == "toy" for s in Grid().settings)
page = AppTest.from_function(form).run()
assert not page.exception
assert "toy code" in page.markdown[0].value, page.markdown
"""


def test_a_listed_coder_is_on_every_page(
    tmp_path: Path, in_fork: Callable[..., tuple[int, str]]
) -> None:
    """In a fork that imports the dashboard anew: the pages list the coders when imported."""
    script = tmp_path / "pages.py"
    script.write_text(LISTED + PAGES)

    def look() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "lcviz"]:
            del sys.modules[name]
        sys.argv = [str(script), str(tmp_path)]
        runpy.run_path(str(script), run_name="__main__")

    code, printed = in_fork(look)
    assert code == 0, printed
