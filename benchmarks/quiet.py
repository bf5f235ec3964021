"""What benchmarks do before they begin: keep the libraries quiet, and use the threads that are asked for."""

import torch
from datasets.utils.logging import disable_progress_bar
from transformers.utils import logging as transformers_logging


def set_up(threads: int | None = None) -> None:
    """Show no progress bars and no warnings of transformers, and limit PyTorch's threads.

    Args:
        threads: CPU threads. ``None``: torch's own.
    """
    disable_progress_bar()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    if threads:
        torch.set_num_threads(threads)
