"""WebAnno TSV 3, which INCEpTION exports too.

Source: https://inception-project.github.io/releases/34.0/docs/user-guide.html#sect_formats_webannotsv3.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path

from span_marker.readers.alignment import TextRow
from span_marker.readers.character_spans import text_row
from span_marker.readers.options import ReadOptions
from span_marker.readers.sentences import Sentence, place
from span_marker.readers.text_files import numbered_lines
from span_marker.readers.writing import all_spans, refuse

HEADER = "#FORMAT=WebAnno TSV 3"
_NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
_TEXT = "#Text="
_FIXED = 3
"""Columns before those of the layers: number, offsets, word."""
_LAYER = re.compile(r"#T_(SP|CH|RL)=(.*)")
_UNIT = re.compile(r"(\d+-\d+)(\.\d+)?")
_STACKED = re.compile(r"(?:\\.|[^\\|])+")
_ANNOTATION = re.compile(r"((?:\\.|[^\\\[\]])*)(?:\[(\d+)\])?")
_ESCAPED = re.compile(r"\\(.)")
_RESERVED = re.compile(r"->|[\\\[\]|_;*\t\n\r\f\b]")
_RESERVED_IN_TEXT = re.compile(r"[\\\t\r\f\b]")
_NAMES = {"\t": "t", "\n": "n", "\r": "r", "\f": "f", "\b": "b"}
_CHARACTERS = {name: character for character, name in _NAMES.items()}


def read(path: Path, options: ReadOptions) -> Iterator[Sentence]:
    """Read a WebAnno TSV 3 file.

    Args:
        path: The file.
        options: How to read: ``tag_column``, the name of a layer, or of a layer and a feature, as in
            "webanno.custom.Thing|kind" (default: the value of named entities, or of the only layer of spans);
            ``encoding``; ``align``, for annotations of parts of words.

    Yields:
        The sentences, with text.

    Raises:
        ValueError: There is no such layer, a line is malformed, or an annotation has no value.
    """
    reader = _Reader(path, options)
    for number, line in numbered_lines(path, options.encoding):
        if line.startswith(_TEXT):
            reader.add_text(_unescape(line.removeprefix(_TEXT)))
        elif line.startswith("#"):
            reader.add_header(line)
        elif line.strip():
            reader.add_word(line, number)
        elif sentence := reader.take():
            yield sentence
    if sentence := reader.take():
        yield sentence


class _Reader:
    """Collects the lines of a sentence."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._path = path
        self._options = options
        self._layers: list[tuple[str, list[str]]] = []
        self._column = 0
        self._width = 0
        self._begin()

    def _begin(self) -> None:
        self._sentence = Sentence([], spans=[], file=str(self._path))
        self._texts: list[str] = []
        self._open: dict[str, list[int]] = {}
        self._labels: dict[str, str] = {}

    def add_header(self, line: str) -> None:
        """Read the definition of a layer."""
        if match := _LAYER.fullmatch(line):
            name, *features = match[2].split("|")
            self._layers.append((name if match[1] == "SP" else "", features))

    def add_text(self, text: str) -> None:
        """Read the text of a sentence; one with line breaks has several."""
        self._texts.append(text)

    def add_word(self, line: str, number: int) -> None:
        """Read a word, or a part of the word before."""
        where = place(self._path, number)
        if not self._column:
            self._find_column(where)
        cells = line.rstrip("\t").split("\t")
        unit = _UNIT.fullmatch(cells[0])
        if unit is None or len(cells) != self._width:
            raise ValueError(
                f"{where}: {line!r:.60}. Expected {self._width} columns, separated by tabs: sentence and word as in "
                "1-1, offsets, word, and the features of the layers."
            )
        sentence = self._sentence
        sentence.line = sentence.line or number
        if unit[2] is None:
            sentence.tokens.append(_unescape(cells[2]))
        self._add_annotations(cells[self._column], unit[2] is not None, where)

    def _add_annotations(self, cell: str, is_part: bool, where: str) -> None:
        """Read the annotations of a word."""
        word = len(self._sentence.tokens) - 1
        for annotation in _STACKED.findall(cell) if cell != "_" else ():
            match = _ANNOTATION.fullmatch(annotation)
            if match is None or match[1] in ("", "*"):
                raise ValueError(f"{where}: the annotation {annotation!r} has no value. Give it one, or remove it.")
            label = _unescape(match[1])
            if is_part:
                self._note_part(label, word)
                if self._options.misaligned.align != "snap":
                    continue
            if match[2] is None:
                self._sentence.spans.append((word, word + 1, label))  # type: ignore[union-attr]
            else:
                self._open.setdefault(match[2], [word]).append(word)
                self._labels[match[2]] = label

    def _note_part(self, label: str, word: int) -> None:
        text, end = self._sentence.tokens[word], len(self._sentence.tokens[word])
        row = TextRow(text, [], file=str(self._path), line=self._sentence.line)
        self._options.misaligned.add(row, (0, end, label), "is on a part of a word")

    def take(self) -> Sentence | None:
        """Return the sentence that has ended, if there is one."""
        sentence, texts = self._sentence, self._texts
        if not sentence.tokens:
            return None
        found = [(words[0], words[-1] + 1, self._labels[name]) for name, words in self._open.items()]
        sentence.spans = [*(sentence.spans or ()), *found]
        sentence.text = "\n".join(texts) if texts else None
        self._begin()
        return sentence

    def _find_column(self, where: str) -> None:
        """Find the column of the entity types."""
        layers = {name: features for name, features in self._layers if name}
        wanted = self._options.tag_column
        if wanted is None and (_NAMED_ENTITY in layers or len(layers) == 1):
            wanted = _NAMED_ENTITY if _NAMED_ENTITY in layers else next(iter(layers))
        layer, _, feature = str(wanted).partition("|")
        features = layers.get(layer, [])
        feature = feature or ("value" if "value" in features else (features or [""])[0])
        if feature not in features:
            raise ValueError(
                f"{where}: the layers of spans are {', '.join(map(repr, layers)) or 'none'}. Name the one with the "
                "entity types, and its feature: `tag_column='layer|feature'`."
            )
        names, counts = [name for name, _ in self._layers], [len(features) for _, features in self._layers]
        self._column = _FIXED + sum(counts[: names.index(layer)]) + features.index(feature)
        self._width = _FIXED + sum(counts)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: _CHARACTERS.get(match[1], match[1]), text)


def _escape(text: str, reserved: re.Pattern[str] = _RESERVED) -> str:
    return reserved.sub(lambda match: "\\" + _NAMES.get(match[0], match[0]), text)


def write(sentences: Iterable[Sentence], path: Path) -> None:
    """Write a WebAnno TSV 3.3 file with named entities.

    Args:
        sentences: The sentences. Words of one without text are joined by spaces.
        path: The file.

    Raises:
        ValueError: A sentence or word is empty.
    """
    position, annotations = 0, 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{HEADER}.3\n#T_SP={_NAMED_ENTITY}|identifier|value\n\n")
        for number, sentence in enumerate(sentences, 1):
            if not sentence.tokens:
                refuse(sentence, "WebAnno's format cannot hold a sentence without words. Leave it out.")
            row = text_row(sentence)
            units = _units(row.text)
            file.writelines(f"\n{_TEXT}{_escape(line, _RESERVED_IN_TEXT)}" for line in row.text.split("\n"))
            file.write("\n")
            cells: list[list[tuple[str, int]]] = [[] for _ in sentence.tokens]
            for start, end, label in all_spans(sentence):
                annotations += 1
                for word in range(start, end):
                    cells[word].append((_escape(label), annotations))
            for word, (begin, stop) in enumerate(row.words or ()):
                first, last = position + units[begin], position + units[stop]
                values = "|".join(f"{label}[{index}]" for label, index in cells[word]) or "_"
                identifiers = "|".join(f"*[{index}]" for _, index in cells[word]) or "_"
                token = _escape(row.text[begin:stop])
                file.write(f"{number}-{word + 1}\t{first}-{last}\t{token}\t{identifiers}\t{values}\t\n")
            position += units[-1] + 1


def _units(text: str) -> list[int]:
    """Count the UTF-16 units before each character, in which offsets are given, and in all."""
    return list(accumulate((1 + (character > "\uffff") for character in text), initial=0))
