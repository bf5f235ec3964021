"""A model behind Hugging Face Inference Endpoints: the handler that its container looks for in a model's repository."""

from collections.abc import Mapping
from typing import Any, Final

from span_marker.inference import Predictions
from span_marker.modeling import SpanMarkerModel

_PARAMETERS: Final = (
    "batch_size",
    "decoding",
    "is_split_into_words",
    "return_scores",
    "span_filter",
    "threshold",
    "top_k",
    "word_splitter",
)


class EndpointHandler:
    """Answers the requests of an endpoint with `SpanMarkerModel.predict`.

    Args:
        path: The folder with the model, which is moved to a GPU where there is one.
    """

    def __init__(self, path: str = "") -> None:
        self.model = SpanMarkerModel.from_pretrained(path).try_cuda()

    def __call__(self, data: Mapping[str, Any]) -> Predictions:
        """Answer a request.

        Args:
            data: ``inputs``: a text, a list of texts, a sentence as a list of words, or a list of such sentences.
                ``parameters``, if there are any: ``batch_size``, ``decoding``, ``is_split_into_words``,
                ``return_scores``, ``span_filter``, ``threshold``, ``top_k`` and ``word_splitter``, a name, of
                `SpanMarkerModel.predict`.

        Returns:
            The entities as `SpanMarkerModel.predict` returns them.

        Raises:
            ValueError: There are no inputs, or a parameter is unknown or has no such value.
            TypeError: The inputs or a parameter are of another type.
        """
        if not isinstance(data, Mapping) or data.get("inputs") is None:
            raise ValueError('The request has no "inputs". Send {"inputs": "a text"}, or a list of texts.')
        parameters = data.get("parameters") or {}
        if not isinstance(parameters, Mapping):
            raise TypeError(f'"parameters" is {parameters!r}. Send an object such as {{"batch_size": 8}}.')
        unknown = sorted(parameters.keys() - set(_PARAMETERS))
        if unknown:
            raise ValueError(f"Unknown parameters: {', '.join(unknown)}. Known ones are: {', '.join(_PARAMETERS)}.")
        return self.model.predict(data["inputs"], **parameters)
