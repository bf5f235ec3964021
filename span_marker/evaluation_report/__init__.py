"""Where a model goes wrong: scores beyond strict F1, what is confused with what, and sentences with errors."""

from span_marker.evaluation_report.known_entities import KnownEntities
from span_marker.evaluation_report.report import EvaluationReport

__all__ = ["EvaluationReport", "KnownEntities"]
