"""What the demo shows on the terminal: steps, a progress bar, the table of scores, highlighted entities."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

_COLOURS: Final = ("bright_magenta", "bright_cyan", "bright_green", "bright_yellow", "bright_blue", "bright_red")
_SCORES: Final = ("precision", "recall", "f1")


def print_step(console: Console, number: int, total: int, title: str) -> None:
    """Announce a step.

    Args:
        console: Where to print.
        number: The step, from 1.
        total: Number of steps.
        title: What is done.
    """
    console.rule(f"[bold]{number}/{total}[/] {title}", align="left")


def metric_table(metrics: Mapping[str, Any], labels: Iterable[str]) -> Table:
    """Lay out scores: one line for each entity type, then micro and macro averages.

    Args:
        metrics: Scores as [`span_marker.evaluation.compute_metrics`] names them.
        labels: The entity types. Those that occur in neither gold nor prediction are left out.

    Returns:
        The table.
    """
    table = Table(title="Scores on the test split")
    table.add_column("type")
    for name in (*_SCORES, "support"):
        table.add_column(name, justify="right")
    support = 0
    for label in labels:
        if isinstance(scores := metrics.get(label), Mapping):
            support += scores["number"]
            table.add_row(label, *_percentages(scores, ""), str(scores["number"]))
    table.add_section()
    table.add_row("micro average", *_percentages(metrics, "overall_"), str(support), style="bold")
    table.add_row("macro average", *_percentages(metrics, "macro_"), str(support))
    return table


def _percentages(scores: Mapping[str, Any], prefix: str) -> list[str]:
    return [f"{100 * scores[prefix + name]:.1f} %" for name in _SCORES]


def colours(labels: Iterable[str]) -> dict[str, str]:
    """Give each entity type a colour.

    Args:
        labels: The entity types.

    Returns:
        Names of terminal colours, which come back in turn if the types outnumber them.
    """
    return dict(zip(labels, cycle(_COLOURS), strict=False))


def highlight(text: str, entities: Sequence[Mapping[str, Any]], palette: Mapping[str, str], *, brackets: bool) -> Text:
    """Mark the entities of a sentence, each with its type behind it.

    Args:
        text: The sentence.
        entities: Entities in order, with ``label``, ``char_start_index`` and ``char_end_index`` (exclusive).
        palette: Colour of each type.
        brackets: Whether to put entities in brackets as well, for terminals without colour.

    Returns:
        The sentence for `rich`.
    """
    marked = Text()
    before, between, after = ("[", " ", "]") if brackets else (" ", " ", " ")
    end = 0
    for entity in entities:
        start, label = entity["char_start_index"], entity["label"]
        colour = palette.get(label, _COLOURS[0])
        marked.append(text[end:start])
        end = entity["char_end_index"]
        marked.append(f"{before}{text[start:end]}{between}", style=f"bold black on {colour}")
        marked.append(f"{label}{after}", style=f"italic black on {colour}")
    marked.append(text[end:])
    return marked


class Notes(logging.Handler):
    """Shows the package's warnings as notes: of each its first line, which tells what is the matter.

    Args:
        console: Where to print.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print a warning."""
        self._console.print(f"Note: {record.getMessage().splitlines()[0]}", style="dim", markup=False)


class TrainingProgress(TrainerCallback):  # type: ignore[misc]
    """Shows training as a progress bar, and the loss of each epoch as a line that stays.

    Args:
        console: Where to print.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("training"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("steps, time left"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task: TaskID | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Show the bar."""
        self._task = self._bar.add_task("training", total=state.max_steps)
        self._bar.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Move the bar."""
        if self._task is not None:
            self._bar.update(self._task, completed=state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Print the mean loss since the last line."""
        if logs is not None and "loss" in logs:
            self._console.print(
                f"epoch {logs['epoch']:.0f} of {args.num_train_epochs:.0f}: loss {float(logs['loss']):.4f}"
            )

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Leave the full bar behind."""
        self._bar.stop()
