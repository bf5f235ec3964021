"""The tables and lists of a model card, prepared from what is known."""

from numbers import Real
from typing import Any

from span_marker.configuration import SpanMarkerConfig
from span_marker.decoding_modes import FLAT, NESTED
from span_marker.entity_columns import SPANS
from span_marker.entity_errors import EntityErrors
from span_marker.model_card.data import EVALUATION, SpanMarkerModelCardData
from span_marker.model_card.evaluations import Evaluation
from span_marker.model_card.markdown import escape, one_line
from span_marker.model_card.metadata import SCORES, sort_metrics
from span_marker.model_card.sources import DataSource
from span_marker.model_card.training_set import TrainingSet
from span_marker.schemes import OUTSIDE, Scheme, prefix_of

Rows = list[dict[str, Any]]

_MOST_CONFUSIONS = 10
_MOST_TYPES = 12
"""Types that are named in the summary."""
_TEST = "test"
_OUTCOMES = {
    "found": "Found",
    "other_words": "Other words",
    "other_type": "Other type",
    "other_both": "Both",
    "missed": "Missed",
    "spurious": "Spurious",
}
_OTHER_NAMES = {
    "overall_accuracy": "Accuracy of the words' tags",
    "loss": "Loss of a candidate span",
    "calibration_error": "Distance of scores from precision (expected calibration error)",
}
_ONE_WORD = {Scheme.BIOES: "S", Scheme.BILOU: "U", Scheme.IOB1: "I", Scheme.NONE: ""}
"""Prefix of the tag of an entity of one word, where it is not "B"."""
_OVERLAP = {
    FLAT: "Entities within other entities are not found: of overlapping ones the most probable is kept.",
    NESTED: "Of entities that overlap without one containing the other, only the most probable is kept.",
}
"""What a mode of decoding does not find."""


def types_of(config: SpanMarkerConfig) -> list[str]:
    """List the entity types of a model.

    Args:
        config: The model's configuration.

    Returns:
        Their names; none for the labels of transformers' default configuration.
    """
    return [label for label in config.labels if label != OUTSIDE] if OUTSIDE in config.labels else []


def summary(config: SpanMarkerConfig, data: SpanMarkerModelCardData) -> list[str]:
    """Say in short what a model finds, and how well.

    Args:
        config: The model's configuration.
        data: What is known.

    Returns:
        Sentences in Markdown: the types, and the F1 on the test set or else the set that was evaluated last.
    """
    types = types_of(config)
    names = f": {', '.join(map(escape, types))}" if len(types) <= _MOST_TYPES else ""
    sentences = [f"It finds entities of {len(types)} type{'s' if len(types) > 1 else ''}{names}."] if types else []
    name = _TEST if _TEST in data.evaluations else next(reversed(data.evaluations), None)
    score = sort_metrics(data.evaluations[name].metrics).overall.get("f1") if name else None
    if score is not None:
        where = "" if name == EVALUATION else f' "{escape(name)}"'
        sentences.append(f"Its F1 on the evaluation set{where} is {score:.4f} ([all scores](#evaluation)).")
    return sentences


def label_rows(config: SpanMarkerConfig, data: SpanMarkerModelCardData) -> Rows:
    """List the entity types, with counts and examples as far as there are any.

    Args:
        config: The model's configuration.
        data: What is known.

    Returns:
        Rows of a table.
    """
    if data.label_example_list:
        return [dict(row) for row in data.label_example_list]
    training = data.shown_training_set
    rows: Rows = []
    for label in types_of(config):
        row: dict[str, Any] = {"Entity type": label}
        if training:
            row["In the training set"] = training.entity_counts.get(label)
        if training and training.examples:
            row["Examples"] = ", ".join(f'"{one_line(text)}"' for text in training.examples.get(label, []))
        rows.append(row)
    return rows


def evaluation_section(evaluation: Evaluation) -> dict[str, Any]:
    """Prepare what the card shows of an evaluation.

    Args:
        evaluation: The evaluation.

    Returns:
        ``source``, Markdown; ``rows`` of the table of scores; further numbers, ``other``; and of what was confused
        ``outcomes``, rows of a table, and ``confusions``, Markdown for each pair of types.
    """
    found = sort_metrics(evaluation.metrics)
    counts = [scores["number"] for scores in found.types.values() if "number" in scores]
    support = int(sum(counts)) if counts else None
    rows = [_scores(name, scores, scores.get("number")) for name, scores in found.types.items()]
    totals = {"All (micro)": found.overall, "All (macro)": found.macro}
    rows += [_scores(name, scores, support) for name, scores in totals.items() if scores]
    errors = evaluation.errors or EntityErrors()
    return {
        "source": _evaluated(evaluation),
        "rows": rows,
        "other": {_OTHER_NAMES.get(name, name): value for name, value in found.other.items()},
        "outcomes": [
            {"Entity type": name} | {title: row[outcome] for outcome, title in _OUTCOMES.items()}
            for name, row in errors.outcomes.items()
        ],
        "confusions": [
            f"{escape(gold)} taken for {escape(taken)}: {count:,}"
            for gold, taken, count in errors.confusions[:_MOST_CONFUSIONS]
        ],
    }


def _evaluated(evaluation: Evaluation) -> str:
    """Say what was evaluated, in Markdown."""
    source = evaluation.source
    rows = evaluation.num_sentences
    parts = [
        f"{rows:,} sentences" if rows is not None else "",
        f"split {escape(source.split)}" if source.split else "",
        describe_source(source),
    ]
    return ", ".join(filter(None, parts))


def _scores(name: str, scores: dict[str, float], support: float | None) -> dict[str, Any]:
    """Prepare a row of the table of scores."""
    row: dict[str, Any] = {"Entity type": name}
    row |= {score.capitalize(): float(scores[score]) for score in SCORES if score in scores}
    return row if support is None else row | {"Support": int(support)}


def describe_source(source: DataSource) -> str:
    """Say where a data set comes from.

    Args:
        source: Where it comes from.

    Returns:
        Markdown; empty if neither name nor id is known.
    """
    name = escape(source.name or source.id or "")
    if not name:
        return ""
    parts = [
        f"[{name}](https://huggingface.co/datasets/{source.id})" if source.id else name,
        f"configuration {escape(source.config)}" if source.config else "",
        f"revision {escape(source.revision)}" if source.revision else "",
    ]
    return ", ".join(filter(None, parts))


def describe_emissions(emissions: dict[str, Any]) -> str:
    """Say what a training emitted.

    Args:
        emissions: The emissions in the Hub's terms.

    Returns:
        Markdown; empty where nothing was measured.
    """
    grams = emissions.get("emissions")
    circumstances = [escape(emissions[name]) for name in ("source", "geographical_location") if emissions.get(name)]
    return f"{grams:g} g of CO2 equivalents ({', '.join(circumstances)})" if isinstance(grams, Real) else ""


def limitations(config: SpanMarkerConfig, data: SpanMarkerModelCardData, tokenizer: Any) -> list[str]:
    """List what a model cannot do.

    Args:
        config: The model's configuration.
        data: What is known.
        tokenizer: The model's tokenizer, or ``None``.

    Returns:
        Markdown, an item of a list each.
    """
    training = data.training_set
    longest, text = config.entity_max_length, config.model_max_length
    words = "word" if longest == 1 else "words"
    items = [f"Entities of more than {longest} {words} are not found.{_too_long(training, longest)}"]
    if text:
        items.append(f"A sentence of more than {text} tokens is read in windows that overlap.{_cut_off(training)}")
    if overlap := _OVERLAP.get(config.decoding):
        items.append(overlap)
    if tokenizer is not None and not _tells_case_apart(tokenizer):
        items.append('The tokenizer reads capital letters as small ones: the model cannot tell "US" from "us".')
    joined = data.tokenizer_warning
    if joined is None:
        joined = tokenizer is not None and not _splits_punctuation(tokenizer)
    if joined:
        items.append(
            "The encoder's tokenizer does not separate punctuation from words: separate it by a space, as in "
            '"Paris ." for "Paris.".'
        )
    if data.languages and not {"multilingual", "code"} & {*data.languages}:
        items.append(f"It was trained on texts in these languages only (ISO 639): {', '.join(data.languages)}.")
    return items


def _too_long(training: TrainingSet | None, longest: int) -> str:
    """Tell how many of the training set's entities are too long."""
    widths = training.entity_widths if training else {}
    if not widths:
        return ""
    total = sum(widths.values())
    missed = sum(count for width, count in widths.items() if width > longest)
    return f" In the training set these are {missed:,} of {total:,} entities ({missed / total:.2%})."


def _cut_off(training: TrainingSet | None) -> str:
    """Tell how many of the training set's entities lie behind the words that were trained on."""
    if not training or not training.cut_off:
        return ""
    share = training.cut_off / training.num_entities
    return (
        f" Training read the first only: {training.cut_off:,} of its {training.num_entities:,} entities ({share:.2%}) "
        "lie behind."
    )


def _tells_case_apart(tokenizer: Any) -> bool:
    """Tell whether a tokenizer keeps capital letters."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    return normalizer is None or "A" in normalizer.normalize_str("A")


def _splits_punctuation(tokenizer: Any) -> bool:
    """Tell whether a tokenizer makes a word of its own of a full stop."""
    return len(tokenizer.words(["Paris."])[0]) > 1


def predict_example(data: SpanMarkerModelCardData, default: str) -> str:
    """Choose a text for the example of how to use the model.

    Args:
        data: What is known.
        default: The text to use where no other is known.

    Returns:
        One line.
    """
    training = data.shown_training_set
    words = training.sentences[0]["tokens"] if training and training.sentences else []
    return one_line(data.predict_example or " ".join(words) or default)


def tagged_example(config: SpanMarkerConfig, data: SpanMarkerModelCardData) -> dict[str, list[Any]] | None:
    """Choose a sentence to show how training data look.

    Args:
        config: The model's configuration.
        data: What is known.

    Returns:
        Its ``tokens`` and ``ner_tags`` or ``spans``; ``None`` if the model knows no tags.
    """
    training = data.shown_training_set
    row = training.sentences[0] if training and training.sentences else {}
    if SPANS in row and {span["label"] for span in row[SPANS]} <= set(config.labels):
        return row
    if "ner_tags" in row and set(row["ner_tags"]) <= set(config.tags):
        return row
    if not config.has_labels:
        return None
    prefix = _ONE_WORD.get(config.label_scheme.scheme, "B")
    tags = [tag for tag in config.tags if tag != OUTSIDE]
    tag = next((tag for tag in tags if prefix_of(tag) == prefix), tags[0])
    return {"tokens": ["A", "sentence", "with", "an", "entity"], "ner_tags": [*4 * [OUTSIDE], tag]}
