"""One module a page; only these and `lcviz.state` know Streamlit."""
