"""Experiments on the codec without a screen: they take arrays and return values."""
