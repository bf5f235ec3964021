"""Run the notebooks and keep their results: ``python notebooks/run.py [NAME ...]``."""

import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def run(path: Path) -> None:
    """Run a notebook in a folder of its own, and write its results into it, but for progress bars and warnings.

    Args:
        path: The notebook.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=900, resources={"metadata": {"path": folder}}).execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({name: value for name, value in cell.metadata.items() if name == "tags"})
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    nbformat.write(notebook, path)


def main() -> None:
    """Run the notebooks that are named, or all."""
    for path in [FOLDER / f"{name}.ipynb" for name in sys.argv[1:]] or sorted(FOLDER.glob("*.ipynb")):
        begin = time.perf_counter()
        run(path)
        print(f"{path.stem}: {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
