"""The dashboard: `streamlit run app.py`; with `-- --run PATH` it opens on the runs at PATH."""

from lcviz.app import show

show()
