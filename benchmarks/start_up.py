"""What `import span_marker` adds to importing torch and transformers' Trainer: at most a tenth.

Each repetition is a new process that imports them one after the other and compares their processor times::

    python benchmarks/start_up.py
"""

import argparse
import statistics
import subprocess
import sys
from collections.abc import Sequence

WANTED = 0.1
_PROGRAM = """
import time
start = time.process_time()
import torch
from transformers import Trainer
middle = time.process_time()
import span_marker
print((time.process_time() - middle) / (middle - start))
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        argv: Arguments. ``None``: those of the command line.

    Returns:
        Exit status: 0 if the median is no more than is wanted, else 1.
    """
    parser = argparse.ArgumentParser(description="Measure what importing the package adds.")
    parser.add_argument("--repetitions", type=int, default=5, help="number of processes")
    command = [sys.executable, "-c", _PROGRAM]
    shares = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(parser.parse_args(argv).repetitions)
    ]
    share = statistics.median(shares)
    print(f"import span_marker adds {share:.1%} ({min(shares):.1%} to {max(shares):.1%}), wanted: {WANTED:.0%} at most")
    return int(share > WANTED)


if __name__ == "__main__":
    sys.exit(main())
