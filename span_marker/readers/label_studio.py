"""Label Studio's exports: tasks with a text in "data" and regions in "annotations", or both side by side (JSON-MIN).

Source: https://labelstud.io/guide/export#Label-Studio-JSON-format-of-annotated-tasks.
"""

from typing import Any

from span_marker.readers.alignment import TextRow
from span_marker.readers.character_spans import Item, parse_row, word_texts

_TEXT = "text"
_LABELS = {"labels", "hypertextlabels"}


def parse(item: Any, where: str) -> TextRow:
    """Read a task of Label Studio.

    Args:
        item: The value.
        where: Its place, for errors.

    Returns:
        The text, its words and its entities.

    Raises:
        ValueError: It is no such task, or has several annotations.
    """
    data = item.get("data") if isinstance(item, dict) else None
    if not isinstance(data, dict):
        if isinstance(item, dict) and isinstance(item.get(_TEXT), str):
            return parse_row(
                {_TEXT: item[_TEXT], "spans": _spans(item[_TEXT], regions_of(item))}, where, "spans", ids=item
            )
        raise ValueError(
            f"{where}: {item!r:.80} is no task. Expected an object with the keys 'data' and 'annotations', or with "
            "'text' and lists of regions."
        )
    texts = [
        value for key, value in data.items() if isinstance(value, str) and key not in ("document_id", "sentence_id")
    ]
    text = data.get(_TEXT, texts[0] if len(texts) == 1 else None)
    spans = _spans(text, [region.get("value", {}) for region in _regions(item, where)])
    return parse_row({_TEXT: text, "spans": spans, "tokens": data.get("tokens")}, where, "spans", ids=data)


def regions_of(item: Item) -> list[Item]:
    """Find the regions of a task in JSON-MIN, where they are below the names of the labels' controls.

    Args:
        item: The task.

    Returns:
        The regions.
    """
    lists = [values for values in item.values() if isinstance(values, list)]
    return [value for values in lists for value in values if isinstance(value, dict) and _LABELS & value.keys()]


def _spans(text: Any, regions: list[Item]) -> list[list[Any]]:
    """List start, end and label of regions, each label on its own."""
    return [
        [*_offsets(text, region), label]
        for region in regions
        for label in region.get("labels") or region.get("hypertextlabels") or ()
    ]


def _regions(item: Item, where: str) -> list[Item]:
    """Choose the regions of a task's annotation."""
    given = [annotation for annotation in item.get("annotations") or () if not annotation.get("was_cancelled")]
    truth = [annotation for annotation in given if annotation.get("ground_truth")]
    chosen = truth or given
    if len(chosen) > 1:
        raise ValueError(
            f"{where}: the task has {len(chosen)} annotations, and it is not said which one counts. Keep one, or mark "
            "it as ground truth."
        )
    return [region for region in chosen[0].get("result", ()) if "labels" in region.get("type", "")] if chosen else []


def _offsets(text: Any, value: Item) -> tuple[Any, Any]:
    """Read a region's offsets, which some versions count in UTF-16 units."""
    start, end, quoted = value.get("start"), value.get("end"), value.get("text")
    if not isinstance(text, str) or not isinstance(start, int) or not isinstance(end, int):
        return start, end
    if isinstance(quoted, str) and text[start:end] != quoted:
        units = text.encode("utf-16-le", "surrogatepass")
        if units[2 * start : 2 * end].decode("utf-16-le", "replace") == quoted:
            before = len(units[: 2 * start].decode("utf-16-le", "replace"))
            return before, before + len(quoted)
    return start, end


def make(row: TextRow) -> Item:
    """Make a task of Label Studio; the words are in "tokens" of "data".

    Args:
        row: The text, its words and its entities.
    """
    regions = [
        {
            "from_name": "label",
            "to_name": "text",
            "type": "labels",
            "value": {"start": start, "end": end, "text": row.text[start:end], "labels": [label]},
        }
        for start, end, label in row.spans
    ]
    data = {_TEXT: row.text, "tokens": word_texts(row), **row.ids}
    return {"data": data, "annotations": [{"result": regions}]}
