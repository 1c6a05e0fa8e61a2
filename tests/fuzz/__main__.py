"""``python -m fuzz``."""

import sys

from fuzz.driver import main

if __name__ == "__main__":
    sys.exit(main())
