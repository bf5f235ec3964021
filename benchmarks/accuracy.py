"""F1 of experiments with the same encoder, on several data sets and with several seeds.

An experiment is a YAML file in ``accuracy/``: span markers trained in one way, or token classification. All are scored
after the last epoch by seqeval's rules, all gold entities counted. Ways are chosen on the validation sets; ``--split
test`` is for what was chosen::

    python benchmarks/accuracy.py filtered token_classification --data wnut17 wikigold --sentences 1000
    python benchmarks/accuracy.py all_spans token_classification --data wikigold --context --split test

A line of JSON is added to ``results/accuracy.jsonl`` after each run. Runs that are there already are not repeated: a
benchmark that was stopped goes on where it was, and its table can be printed again at once.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import token_classification
import torch
from candidates import Candidate, CandidateModel, CandidateTrainer, make_optimizer
from corpora import DOCUMENT_COLUMNS, ENCODER, LENGTHS, Corpus, encoder_path, read_corpus
from datasets import Dataset
from experiments import SPAN, TOKEN, Experiment, read_experiment
from quiet import set_up
from records import RESULTS, Record, append, environment, find, read_results, table
from seqeval.metrics import classification_report
from transformers import PrinterCallback, TrainerCallback, TrainingArguments, set_seed

from span_marker.demo import DemoError

VOTES = (0.0, 0.67, 1.0)
"""Weights of the span filter's opinion in further evaluations: of markers alone, both, the text alone."""
THRESHOLDS = (0.002, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Probabilities below which the span filter drops spans in further evaluations."""


class Progress(TrainerCallback):
    """Prints the mean loss of each epoch.

    Args:
        run: What to call the run.
    """

    def __init__(self, run: str) -> None:
        self._run = run

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Print a line."""
        if logs and "loss" in logs:
            _progress(
                f"{self._run}: epoch {state.epoch:.0f} of {args.num_train_epochs:.0f}, loss {float(logs['loss']):.4f}"
            )


def _progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_once(
    experiment: Experiment,
    corpus: Corpus,
    encoder: str,
    key: Record,
    save: Path | None = None,
    *,
    brief: bool = False,
) -> Record:
    """Train one model and score it.

    Args:
        experiment: What to train.
        corpus: The corpus, with documents only if their context is wanted.
        encoder: Path of the encoder.
        key: The settings of the run.
        save: Folder for the trained model, in a folder of its own. ``None``: it is not kept.
        brief: Whether to leave out how F1 depends on the settings of the span filter.

    Returns:
        Scores and times.
    """
    set_seed(key["seed"])
    evaluate = {SPAN: partial(_span_markers, brief=brief), TOKEN: _token_classification}[experiment.model]
    kept = None if save is None else nullcontext(str(save / f"{key['data']}-{experiment.name}-{key['seed']}"))
    with kept or tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            use_cpu=not torch.cuda.is_available(),
            seed=key["seed"],
            per_device_eval_batch_size=32,
            dataloader_pin_memory=torch.cuda.is_available(),
            logging_strategy="epoch",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **experiment.arguments,
        )
        name = f"{key['data']}, {experiment.name}, seed {key['seed']}"
        scores = evaluate(experiment, corpus, encoder, arguments, Progress(name), key["split"])
        return scores | {"device": arguments.device.type}


def _span_markers(
    experiment: Experiment,
    corpus: Corpus,
    encoder: str,
    arguments: TrainingArguments,
    progress: Progress,
    split: str,
    *,
    brief: bool = False,
) -> Record:
    """Train and score span markers."""
    candidate = Candidate(**experiment.candidate)
    model = CandidateModel.from_pretrained(encoder, labels=corpus.labels, **LENGTHS, **experiment.settings)
    model.adopt(candidate)
    decay = candidate.layer_decay
    optimizer = None if decay == 1.0 else make_optimizer(model, arguments, decay)
    trainer = CandidateTrainer(
        model=model,
        args=arguments,
        train_dataset=corpus.splits["train"],
        eval_dataset=corpus.splits["validation"],
        negative_span_ratio=experiment.negative_span_ratio,
        callbacks=[progress],
        optimizers=(optimizer, None),
    )
    result = _train(trainer)
    begin = time.perf_counter()
    found = trainer.evaluate(corpus.splits[split])
    scores = {name: found[f"eval_overall_{name}"] for name in ("precision", "recall", "f1")}
    result |= scores | {"macro_f1": found["eval_macro_f1"], "evaluation_seconds": time.perf_counter() - begin}
    config = trainer.model.config
    if config.span_filter:
        result["span_filter_threshold"] = config.span_filter_threshold
    if config.span_filter and not brief:
        (result["all_spans_f1"],) = _score_with(trainer, corpus.splits[split], "span_filter_threshold", [None])
        # Nothing is chosen on a test set.
        for setting, values in (("span_filter_threshold", THRESHOLDS), ("span_filter_vote", VOTES)):
            scores = _score_with(trainer, corpus.splits["validation"], setting, values)
            result[f"validation_f1_by_{setting}"] = dict(zip(map(str, values), scores, strict=True))
    return result


def _score_with(trainer: Any, rows: Dataset, setting: str, values: Sequence[float | None]) -> list[float]:
    """Score a model with a setting of its configuration changed."""
    config, scores = trainer.model.config, []
    trained = getattr(config, setting)
    for value in values:
        setattr(config, setting, value)
        scores.append(float(trainer.evaluate(rows)["eval_f1"]))
    setattr(config, setting, trained)
    return scores


def _token_classification(
    experiment: Experiment,
    corpus: Corpus,
    encoder: str,
    arguments: TrainingArguments,
    progress: Progress,
    split: str,
) -> Record:
    """Train and score token classification."""
    length = LENGTHS["model_max_length"]
    trainer = token_classification.make_trainer(corpus, encoder, length, arguments, [progress])
    result = _train(trainer)
    rows = corpus.splits[split]
    begin = time.perf_counter()
    predicted = token_classification.predict_tags(trainer, rows, corpus.labels, length)
    gold = [[corpus.labels[tag] for tag in row] for row in rows["ner_tags"]]
    report = classification_report(gold, predicted, output_dict=True, zero_division=0)
    micro = report["micro avg"]
    scores = {"precision": micro["precision"], "recall": micro["recall"], "f1": micro["f1-score"]}
    scores |= {"macro_f1": report["macro avg"]["f1-score"], "evaluation_seconds": time.perf_counter() - begin}
    return result | {name: float(value) for name, value in scores.items()}


def _train(trainer: Any) -> Record:
    """Train and save, and tell how long training took, preprocessing included."""
    trainer.remove_callback(PrinterCallback)
    begin, processor_begin = time.perf_counter(), time.process_time()
    trainer.train()
    seconds, processor_seconds = time.perf_counter() - begin, time.process_time() - processor_begin
    trainer.save_model()
    return {"training_seconds": seconds, "training_processor_seconds": processor_seconds}


def narrow(corpus: Corpus, *, context: bool, sentences: int | None) -> Corpus:
    """Choose what of a corpus is used.

    Args:
        corpus: The corpus.
        context: Whether to keep the documents.
        sentences: Number of training sentences. ``None``: all.

    Returns:
        The part.

    Raises:
        DemoError: Its documents are wanted but not known.
    """
    if context and not corpus.has_documents:
        raise DemoError("The data set has no document_id and sentence_id: there is no --context.")
    columns = ["tokens", "ner_tags", *(DOCUMENT_COLUMNS if context else ())]
    splits = {name: rows.select_columns(columns) for name, rows in corpus.splits.items()}
    splits["train"] = splits["train"].select(range(min(sentences or len(splits["train"]), len(splits["train"]))))
    return replace(corpus, splits=splits)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Compare the accuracy of ways of training.", formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("experiments", nargs="*", help="names of files in accuracy/, or paths of such files")
    parser.add_argument(
        "--data", nargs="+", default=["wnut17"], help="data sets in $SPAN_MARKER_SHARED/data, or folders"
    )
    parser.add_argument("--encoder", default=ENCODER, help="'minilm', or the folder of an encoder")
    parser.add_argument("--context", action="store_true", help="use documents")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="a run each")
    parser.add_argument("--sentences", type=int, nargs="+", default=[None], help="training sentences (default: all)")
    parser.add_argument("--split", choices=["validation", "test"], default="validation", help="what to score on")
    parser.add_argument("--epochs", type=float, nargs="+", default=[None], help="instead of the experiment's own")
    parser.add_argument("--bf16", action="store_true", help="train and score in mixed precision")
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's own)")
    parser.add_argument("--save", type=Path, help="folder for the trained models, a folder each")
    parser.add_argument("--brief", action="store_true", help="leave out F1 by settings of the span filter")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file of finished runs, added to")
    return parser.parse_args(argv)


def run(settings: argparse.Namespace) -> list[Record]:
    """Make the runs that are not finished yet.

    Args:
        settings: The parsed arguments.

    Returns:
        All that were asked for.

    Raises:
        DemoError: An experiment, a data set or the encoder is missing.
    """
    encoder = encoder_path(settings.encoder)
    records = []
    choices = (settings.data, settings.sentences, settings.seeds, settings.epochs, settings.experiments)
    for data, sentences, seed, epochs, name in product(*choices):
        arguments = {"bf16": settings.bf16} | ({} if epochs is None else {"num_train_epochs": epochs})
        experiment = read_experiment(name, arguments)
        key = {
            **experiment.key(),
            "data": Path(data).name,
            "context": settings.context,
            "sentences": sentences,
            "split": settings.split,
            "seed": seed,
            "encoder": Path(settings.encoder).name,
            **LENGTHS,
        }
        record = find(read_results(settings.results), key)
        if record is None:
            corpus = narrow(read_corpus(data), context=settings.context, sentences=sentences)
            record = key | run_once(experiment, corpus, encoder, key, settings.save, brief=settings.brief)
            record |= environment()
            append(settings.results, record)
        _progress(f"{key['data']}, {name}, seed {seed}: F1 {100 * record['f1']:.2f}")
        records.append(record)
    return records


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark.

    Args:
        argv: Arguments. ``None``: those of the command line.

    Returns:
        Exit status: 0, or 2 where something is missing.
    """
    settings = _parse(argv)
    set_up(settings.threads)
    try:
        print(table(run(settings)))
    except DemoError as error:
        print(f"accuracy: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
