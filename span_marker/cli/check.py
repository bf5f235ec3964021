"""``span-marker check``: what a data set holds and what is wrong with it."""

import json
import sys
from argparse import Namespace
from pathlib import Path

from span_marker.cli.data import load_data
from span_marker.cli.tables import print_table
from span_marker.data_report import check_dataset, tables_of, write_page
from span_marker.progress import progress_bars
from span_marker_cli.parsers import reading_options
from span_marker_cli.statuses import DONE, PROBLEMS


def run(options: Namespace) -> int:
    """Check a data set.

    Args:
        options: What the command was given.

    Returns:
        Exit status: 1 if there are problems.

    Raises:
        ValueError: The data set cannot be read.
        OSError: The data set or the encoder is missing.
    """
    with progress_bars(sys.stderr.isatty()):
        splits = load_data(options.data, keep_tags=True, **reading_options(options))  # type: ignore[arg-type]
        report = check_dataset(
            splits, column=options.column, labels=options.labels, scheme=options.scheme, encoder=options.encoder
        )
    if options.html:
        Path(options.html).write_text(write_page(report, f"Check of {options.data}"), encoding="utf-8")
    if options.json:
        print(json.dumps(report.to_dict(), indent=2, ensure_ascii=False))
    else:
        for table in tables_of(report):
            print_table(table.title, table.columns, table.rows)
        for finding in report.findings:
            print(f"{'Problem' if finding.is_problem else 'Note'}: {finding.text}")
    problems = sum(finding.is_problem for finding in report.findings)
    print(f"Problems: {problems}.", file=sys.stderr)
    return PROBLEMS if report.has_problems else DONE
