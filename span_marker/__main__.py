"""``python -m span_marker``: the command line, after the package has been imported."""

import sys

from span_marker_cli import main

if __name__ == "__main__":
    sys.exit(main())
