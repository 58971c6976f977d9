"""States as files. The restore.py of every export imports this module, so its name stays."""

from codec.state.tensor_files import write_state

__all__ = ["write_state"]
