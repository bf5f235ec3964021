"""What each command takes."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace, _SubParsersAction
from collections.abc import Sequence
from typing import TypeAlias

_Commands: TypeAlias = "_SubParsersAction[ArgumentParser]"

_DATA = "file, folder with files of train, validation and test, or name of a data set on the Hub"
_MODEL = "folder of the model, or its name on the Hub"
WORD_SPLITTERS = ("punctuation", "whitespace", "jieba", "fugashi", "pythainlp")
"""Names in `span_marker.word_splitters`, whose import would take a while."""
_DELIMITERS = {"tab": "\t", "space": " ", "comma": ",", "semicolon": ";"}


def parse(argv: Sequence[str]) -> Namespace:
    """Parse the arguments of a command. Options may stand between others.

    Args:
        argv: The arguments, without the program's name.

    Returns:
        The options, and the name of the command as ``command``.

    Raises:
        SystemExit: Help was asked for (0), or the arguments are wrong (2), which is told.
    """
    parser = ArgumentParser("span-marker", description="Span-based named entity recognition.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for add in (_add_check, _add_convert, _add_train, _add_evaluate, _add_predict, _add_export, _add_push, _add_env):
        add(commands)
    if not argv or argv[0] not in commands.choices:
        return parser.parse_args(argv)  # help, or an error
    return commands.choices[argv[0]].parse_intermixed_args(argv[1:], Namespace(command=argv[0]))


def _add_check(commands: _Commands) -> None:
    parser = _command(commands, "check", "look for problems of a data set, and recommend lengths")
    parser.add_argument("data", help=_DATA)
    _add_reading(parser)
    parser.add_argument("--encoder", help="encoder whose tokenizer is tried on the data: folder, or name on the Hub")
    parser.add_argument("--json", action="store_true", help="write the report as JSON")
    parser.add_argument("--html", metavar="FILE", help="write the report to a web page, too")


def _add_convert(commands: _Commands) -> None:
    parser = _command(commands, "convert", "convert a data set to another format")
    parser.add_argument("data", help=_DATA)
    parser.add_argument("target", help="file; folder if there are several splits")
    _add_reading(parser)
    parser.add_argument("--to", metavar="FORMAT", help="format to write; by default told by the name of the file")
    parser.add_argument("--entity-column", choices=("ner_tags", "spans"), help="whether to read tags or spans")
    parser.add_argument("--split", help="the only split to convert")


def _add_train(commands: _Commands) -> None:
    parser = _command(commands, "train", "train a model, evaluate it and save it")
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="FILE or KEY=VALUE",
        help="YAML, JSON or TOML file, and settings that go before those in it: training.learning_rate=3e-5",
    )
    parser.add_argument("--output", metavar="FOLDER", help="folder for the model: training.output_dir")
    parser.add_argument(
        "--search",
        type=_positive,
        metavar="N",
        help="first try N sets of training arguments, and take the best (optuna)",
    )
    parser.add_argument("--dry-run", action="store_true", help="check the settings and show them, without training")


def _add_evaluate(commands: _Commands) -> None:
    parser = _command(commands, "evaluate", "score a model on a data set")
    parser.add_argument("model", help=_MODEL)
    parser.add_argument("data", help=_DATA)
    _add_reading(parser)
    parser.add_argument("--split", help="split to score; by default test, or validation if there is none")
    _add_batch_size(parser)
    _add_decoding(parser)
    parser.add_argument("--json", action="store_true", help="write the metrics as JSON")
    parser.add_argument("--report", metavar="FILE", help="write to a web page, too, where the model goes wrong")


def _add_predict(commands: _Commands) -> None:
    parser = _command(commands, "predict", "find the entities in texts")
    parser.add_argument("model", help=_MODEL)
    parser.add_argument("files", nargs="*", help="files to read; by default standard input")
    parser.add_argument(
        "--from",
        dest="source",
        choices=("text", "jsonl", "conll"),
        help="a text a line; JSON objects with 'text' or 'tokens'; column files. By default told by the file's name",
    )
    parser.add_argument(
        "--to",
        choices=("jsonl", "conll"),
        help="by default conll for conll if entities cannot overlap, else jsonl",
    )
    parser.add_argument("--encoding", default="utf-8", help="encoding of the files (default: %(default)s)")
    _add_batch_size(parser)
    _add_decoding(parser)
    parser.add_argument(
        "--word-splitter", choices=WORD_SPLITTERS, help="how texts are split into words; by default as the model says"
    )


def _add_export(commands: _Commands) -> None:
    parser = _command(commands, "export", "write a model for another engine")
    parser.add_argument("model", help=_MODEL)
    parser.add_argument("folder", help="folder to write to")
    parser.add_argument(
        "--format", choices=("onnx",), default="onnx", help="format of the engine (default: %(default)s)"
    )
    parser.add_argument("--quantize", choices=("int8",), help="store weights in eight bits")
    parser.add_argument("--data", help=f"data set to score both models on: {_DATA}")
    parser.add_argument("--split", help="its split; by default test, or validation if there is none")


def _add_push(commands: _Commands) -> None:
    parser = _command(commands, "push", "upload a model to the Hugging Face Hub")
    parser.add_argument("model", help="folder of the model")
    parser.add_argument("repository", help="organization/name, made if there is none")
    parser.add_argument("--private", action="store_true", default=None, help="make a new repository private")
    parser.add_argument("--revision", help="branch to push to, made if there is none")
    parser.add_argument("--message", default="Upload model", help="message of the commit")
    parser.add_argument("--create-pr", action="store_true", help="open a pull request")
    parser.add_argument("--inference-handler", action="store_true", help="add what Inference Endpoints need")


def _add_env(commands: _Commands) -> None:
    _command(commands, "env", "show versions and devices, for bug reports")


def _command(commands: _Commands, name: str, purpose: str) -> ArgumentParser:
    parser = commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")
    parser.add_argument("--traceback", action="store_true", help="show where an error comes from")
    return parser


def _add_reading(parser: ArgumentParser) -> None:
    """Add how to read data; the names are those of `span_marker.read_dataset`."""
    reading = parser.add_argument_group("reading the data")
    reading.add_argument("--format", help="format of the files; by default told by name and content")
    reading.add_argument("--column", default="ner_tags", help="column of the tags, of a data set on the Hub")
    reading.add_argument("--subset", help="configuration of a data set on the Hub")
    reading.add_argument("--labels", type=_labels, help="all tags in the order of their ids, separated by commas")
    reading.add_argument("--scheme", help="IOB1, IOB2, BIOES, BILOU, BILO or NONE; by default told by the tags")
    reading.add_argument("--token-column", type=_column, help="index or name of the column of the words, in files")
    reading.add_argument("--tag-column", type=_column, help="the same for the tags")
    reading.add_argument(
        "--delimiter", type=lambda text: _DELIMITERS.get(text, text), help="tab, space, whitespace, comma or semicolon"
    )
    reading.add_argument("--encoding", help="encoding of text files")
    reading.add_argument("--split-words", choices=WORD_SPLITTERS, help="how texts are split into words")
    reading.add_argument(
        "--align", choices=("error", "snap", "drop"), help="what to do with entities that end within words"
    )


READING = ("format", "labels", "scheme", "token_column", "tag_column", "delimiter", "encoding", "split_words", "align")
"""Options that are handed on to `span_marker.read_dataset`."""


def reading_options(options: Namespace) -> dict[str, object]:
    """Choose the options that say how to read data.

    Args:
        options: The options of a command.

    Returns:
        Those that were given, by the names of `span_marker.cli.data.load_data`'s arguments.
    """
    given = {name: getattr(options, name) for name in (*READING, "column", "subset")}
    return {name: value for name, value in given.items() if value is not None}


def _add_batch_size(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--batch-size", type=_positive, default=32, metavar="N", help="sentences in a batch (default: %(default)s)"
    )


def _add_decoding(parser: ArgumentParser) -> None:
    """Add how entities are chosen; the names are those of `SpanMarkerModel.predict`."""
    decoding = parser.add_argument_group("choosing entities")
    decoding.add_argument(
        "--decoding",
        choices=("flat", "nested", "all"),
        help="entities share no word; they may contain each other; any span may be one. By default as the model says",
    )
    decoding.add_argument(
        "--threshold",
        action="append",
        metavar="P or TYPE=P",
        help="least probability of an entity, or one for a type; may be given for several types",
    )
    decoding.add_argument("--top-k", type=_positive, metavar="N", help="most entities of a sentence")


def decoding_options(options: Namespace) -> dict[str, object]:
    """Choose the options that say how entities are chosen.

    Args:
        options: The options of a command.

    Returns:
        The arguments ``decoding``, ``threshold`` and ``top_k`` of `SpanMarkerModel.predict`.

    Raises:
        ValueError: A threshold is no number, one for all types comes with others, or one type has two.
    """
    return {"decoding": options.decoding, "threshold": _threshold(options.threshold or ()), "top_k": options.top_k}


def _threshold(texts: Sequence[str]) -> float | dict[str, float] | None:
    """Read thresholds: one for all types, or one for each of some types."""
    each: dict[str, float] = {}
    for text in texts:
        label, _, number = text.rpartition("=")
        try:
            least = float(number)
        except ValueError as error:
            raise ValueError(
                f"--threshold {text}: expected a probability such as 0.5, or one of a type: PER=0.5."
            ) from error
        if label in each or (len(texts) > 1 and not label):
            raise ValueError(
                f"--threshold {' --threshold '.join(texts)}: expected one number for all types, or one for each."
            )
        each[label] = least
    return each.get("", each or None)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _column(text: str) -> int | str:
    return int(text) if text.removeprefix("-").isdecimal() else text


def _labels(text: str) -> list[str]:
    return text.split(",")
