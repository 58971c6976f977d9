"""The yardstick of page.py: a Streamlit page with one Plotly chart and nothing else."""

import plotly.graph_objects as go
import streamlit as st

st.plotly_chart(go.Figure(go.Scatter(y=[1, 3, 2])))
