"""Values to pictures: each module turns one experiment's values into a Panel, without a screen.

What ticks is an Apache ECharts option (a plain dict, updated in place by the page); what is
drawn once is a Plotly figure.
"""
