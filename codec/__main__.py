"""python -m codec COMMAND …"""

import sys

from codec.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
