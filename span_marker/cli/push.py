"""``span-marker push``: a model to the Hub."""

from argparse import Namespace

from span_marker.modeling import SpanMarkerModel


def run(options: Namespace) -> int:
    """Upload a model with its card.

    Args:
        options: What the command was given.

    Returns:
        Exit status.

    Raises:
        OSError: There is no such model, the user may not write to the repository, or the Hub cannot be reached.
    """
    commit = SpanMarkerModel.from_pretrained(options.model).push_to_hub(
        options.repository,
        private=options.private,
        revision=options.revision,
        commit_message=options.message,
        create_pr=options.create_pr,
        inference_handler=options.inference_handler,
    )
    print(commit)
    return 0
