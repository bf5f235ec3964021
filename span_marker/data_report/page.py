"""A report as a web page that needs no other file."""

from pathlib import Path

from span_marker.data_report.report import DataReport
from span_marker.data_report.tables import tables_of
from span_marker.pages import render_page

_TEMPLATE = Path(__file__).with_name("page.html.jinja")


def write_page(report: DataReport, title: str) -> str:
    """Write a report as a web page.

    Args:
        report: The report.
        title: Title of the page.

    Returns:
        HTML. What comes from the data is escaped.
    """
    return render_page(_TEMPLATE, report=report, title=title, tables=list(tables_of(report)))
