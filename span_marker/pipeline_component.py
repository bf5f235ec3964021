"""transformers' pipeline for span marker models: ``pipeline("span-marker", model=...)``."""

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import Any, ClassVar

from transformers import Pipeline
from transformers.pipelines import PIPELINE_REGISTRY

from span_marker.inference import Prediction, Predictions
from span_marker.modeling import SpanMarkerModel

TASK = "span-marker"
FORMATS = ("span-marker", "token-classification")


class SpanMarkerPipeline(Pipeline):  # type: ignore[misc]
    """Finds entities with the interface of transformers' pipelines.

    >>> from transformers import pipeline  # doctest: +SKIP
    >>> find = pipeline("span-marker", model="models/bert-conll/final")  # doctest: +SKIP
    >>> find("Amelia Earhart flew to Paris.", output_format="token-classification")  # doctest: +SKIP
    [{'entity_group': 'PER', 'score': 0.99, 'word': 'Amelia Earhart', 'start': 0, 'end': 14}, ...]
    """

    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    _load_tokenizer = False
    _settings: ClassVar[tuple[str, ...]] = (
        "decoding",
        "is_split_into_words",
        "return_scores",
        "show_progress_bar",
        "span_filter",
        "threshold",
        "top_k",
        "word_splitter",
    )

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Find entities.

        Args:
            inputs: What ``SpanMarkerModel.predict`` takes, or any data set of texts, such as a `KeyDataset`.
            *args: None are taken: several inputs are a list.
            **kwargs: ``batch_size``; the arguments of ``SpanMarkerModel.predict``; and ``output_format``:
                "span-marker" for its output, or "token-classification" for dictionaries of ``entity_group``, ``score``,
                ``word``, ``start`` and ``end``, as transformers' pipeline of that name returns them, and of ``scores``
                where ``return_scores`` asks for them.

        Returns:
            The entities of one input, a list of them for each of several, or an iterator of these for an iterator.

        Raises:
            TypeError: Inputs in another form or not in one argument, or an argument that is not known.
            ValueError: Another output format, or a value out of range.
        """
        batch_size = next(size for size in (kwargs.pop("batch_size", None), self._batch_size, 1) if size is not None)
        kwargs.pop("num_workers", None)
        if args:
            raise TypeError(f"The pipeline got {len(args) + 1} inputs one by one. Pass several as one list.")
        forward, output = self._sanitize_parameters(**kwargs)[1:]
        settings = {**self._forward_params, **forward, "batch_size": batch_size}
        output_format = {**self._postprocess_params, **output}.get("output_format", TASK)
        if not isinstance(inputs, str | Iterable) and hasattr(inputs, "__getitem__"):
            inputs = map(inputs.__getitem__, range(len(inputs)))  # a data set of torch
        found = self.model.predict(inputs, **settings)
        return found if output_format == TASK else _as_token_classification(found)

    def save_pretrained(self, save_directory: str | PathLike[str], **kwargs: Any) -> None:
        """Save the model, which is all there is: the pipeline's code is the package's, and is not copied.

        Args:
            save_directory: The folder, made if it does not exist.
            **kwargs: As for ``SpanMarkerModel.save_pretrained``.
        """
        self.model.save_pretrained(save_directory, **kwargs)

    def _sanitize_parameters(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Sort arguments into those of the steps."""
        known = {*self._settings, "output_format"}
        if unknown := sorted(kwargs.keys() - known):
            raise TypeError(f"The pipeline got {unknown[0]!r}; it takes {', '.join(sorted(known))} and batch_size.")
        output = {name: value for name, value in kwargs.items() if name == "output_format"}
        if output and output["output_format"] not in FORMATS:
            raise ValueError(f"output_format is {output['output_format']!r}. Expected one of {', '.join(FORMATS)}.")
        return {}, {name: value for name, value in kwargs.items() if name in self._settings}, output

    def preprocess(self, inputs: Any) -> dict[str, Any]:
        """Hand the inputs on: ``predict`` does all three steps."""
        return {"inputs": inputs}

    def _forward(self, model_inputs: dict[str, Any], **settings: Any) -> Predictions:
        """Find entities."""
        return self.model.predict(model_inputs["inputs"], **settings)  # type: ignore[no-any-return]

    def postprocess(self, model_outputs: Predictions, **settings: Any) -> Any:
        """Bring entities into the wanted form."""
        return model_outputs


def _as_token_classification(found: Any) -> Any:
    """Name the parts of entities as transformers' token classification does, in one list or in several."""
    if isinstance(found, Iterator):
        return map(_as_token_classification, found)
    if found and isinstance(found[0], dict):
        return [_renamed(entity) for entity in found]
    return [_as_token_classification(entities) for entities in found]


def _renamed(entity: Prediction) -> Prediction:
    """Name the parts of one entity; a list of words is joined."""
    unit = "char" if "char_start_index" in entity else "word"
    span = entity["span"]
    return {
        "entity_group": entity["label"],
        "score": entity["score"],
        "word": span if isinstance(span, str) else " ".join(span),
        "start": entity[f"{unit}_start_index"],
        "end": entity[f"{unit}_end_index"],
        **({"scores": entity["scores"]} if "scores" in entity else {}),
    }


PIPELINE_REGISTRY.register_pipeline(TASK, pipeline_class=SpanMarkerPipeline, pt_model=SpanMarkerModel)
