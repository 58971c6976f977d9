"""What import contracts cannot say (see pyproject.toml): which files know the screen."""

import re
from pathlib import Path

LCVIZ = Path(__file__).resolve().parents[2] / "lcviz"


def test_only_page_modules_and_the_ui_import_streamlit() -> None:
    found = {
        str(path.relative_to(LCVIZ))
        for path in LCVIZ.rglob("*.py")
        if re.search(r"^\s*(import|from) streamlit", path.read_text(), re.MULTILINE)
    }
    # Those that put pages on the screen stand above them.
    above = {"app.py", "cli/serve.py", "dashboard.py", "welcome.py"}
    assert {name for name in found if not re.match(r"ui/|(\w+/)+page\w*\.py$", name)} == above
