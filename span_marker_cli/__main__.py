"""``python -m span_marker_cli``, which starts as fast as ``span-marker``."""

import sys

from span_marker_cli import main

if __name__ == "__main__":
    sys.exit(main())
