"""What a data set holds and what is wrong with it, before a model is trained on it."""

from span_marker.data_report.page import write_page
from span_marker.data_report.report import DataReport, check_dataset
from span_marker.data_report.tables import tables_of

__all__ = ["DataReport", "check_dataset", "tables_of", "write_page"]
