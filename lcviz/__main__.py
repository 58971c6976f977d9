"""python -m lcviz …: the same as the command `lcviz`."""

import sys

from lcviz.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
