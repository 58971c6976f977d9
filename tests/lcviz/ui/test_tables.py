"""How numbers stand in tables, without a browser."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pytest
from streamlit.testing.v1 import AppTest

from lcviz.ui import navigation

pytestmark = pytest.mark.usefixtures("server")


def _short() -> None:
    import pandas as pd

    from lcviz.ui import widgets

    columns = {
        "name": ["a_b*c"],
        "count": [-12_345],
        "share": [0.25],
        "bytes": [1_234_567.8],
        "fewer": [25_815.4],
        "none": [float("nan")],
    }
    widgets.show_table(pd.DataFrame(columns), "any")


def _long() -> None:
    import pandas as pd

    from lcviz.ui import widgets

    n = widgets.PLAIN_TABLE_ROWS + 1
    widgets.show_table(pd.DataFrame({"step": range(n), "share": n * [0.5]}), "any")


def _whole_page(name: str) -> None:
    import streamlit as st

    from lcviz import dashboard
    from lcviz.ui import navigation

    dashboard.run(st.navigation([navigation.page(name)], position="hidden"))


@pytest.mark.parametrize("name", [name for name in navigation.PAGES if name != "tune"])
def test_one_switch_stands_at_the_end_of_each_page_with_pictures(name: str) -> None:
    at = AppTest.from_function(_whole_page, args=(name,), default_timeout=60).run()
    assert not at.exception
    pictures = name not in ("live", "glossary", "export")
    assert [t.key for t in at.toggle].count("tables") == pictures


def test_a_short_one_is_text_with_grouped_numbers() -> None:
    at = AppTest.from_function(_short).run()
    assert not at.exception
    (table,) = at.table
    shown = pa.ipc.open_stream(table.proto.arrow_data.styler.display_values).read_pandas()
    assert list(shown.iloc[0]) == [r"a\_b\*c", "−12,345", "0.25", "1,234,568", "25,815.4", "–"]
    assert table.value["count"].tolist() == [-12_345]


def test_a_long_one_scrolls_and_groups_whole_numbers() -> None:
    at = AppTest.from_function(_long).run()
    assert not at.exception
    (table,) = at.dataframe
    configs = {k: c.get("type_config") for k, c in json.loads(table.proto.columns).items()}
    assert {k: config["format"] for k, config in configs.items() if config} == {"step": "localized"}
    assert isinstance(table.value, pd.DataFrame)
