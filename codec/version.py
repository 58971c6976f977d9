"""The version of the package, and the name by which records say who wrote them."""

__version__ = "0.3.0"
WRITER = f"lcviz {__version__}"
