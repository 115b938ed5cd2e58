"""Whatever a document shows is run: the tutorial, the examples, and the examples of docstrings."""

import ast
import contextlib
import doctest
import importlib.util
import inspect
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import phaselink

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


#: Packages that a block has to say it needs: a new user has none of them.
OTHERS = ("numpy", "pandas", "polars", "pyarrow", "matplotlib", "distributed", "ray", "simpy")


def has(words):
    """Whether what a text says it needs (``needs=a,b`` or ``# needs: a, b``) can be imported."""
    named = re.search(r"needs[=:] ?([\w, ]+)", words)
    return all(importlib.util.find_spec(name.strip()) for name in named[1].split(",")) if named else True


def pages():
    """Pages with blocks of Python that no command of the page runs."""
    every = [ROOT / "README.md", *sorted((ROOT / "crates/cli/docs").glob("*.md"))]
    blocks = {page: [block for block in BLOCK.findall(page.read_text()) if "file=" not in block[1]] for page in every}
    return [(page, found) for page, found in blocks.items() if any(kind == "python" for kind, _, _ in found)]


@pytest.mark.parametrize("page, blocks", pages(), ids=lambda value: value.name if isinstance(value, Path) else "")
def test_the_blocks_of_a_page_run_one_after_the_other_and_print_what_it_shows(page, blocks, monkeypatch):
    monkeypatch.chdir(ROOT)
    names, printed = {}, None
    for kind, words, text in blocks:
        if kind == "python":
            with monkeypatch.context() as without:
                for name in [] if "needs=" in words else OTHERS:
                    without.setitem(sys.modules, name, None)
                printed = run(text, names, str(page)) if has(words) else None
        elif kind == "text" and printed:
            assert printed == text
        if kind != "python":
            printed = None


def run(text, names, place):
    """What a text prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, place, "exec"), names)
    return out.getvalue()


NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_every_notebook_runs_and_is_stored_with_what_it_shows(path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    document = json.loads(path.read_text())
    cells = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 2
    for cell in cells:
        *_, last = ast.parse("".join(cell["source"])).body
        assert cell["outputs"] or not isinstance(last, ast.Expr), "".join(cell["source"])
    pictures = [output for cell in cells for output in cell["outputs"] if "image/png" in output.get("data", {})]
    assert pictures or "matplotlib" not in "".join(cells[0]["source"])
    if not has("".join(cells[0]["source"])):
        pytest.skip("what the notebook needs is not installed")
    if has("needs=nbclient,ipykernel"):
        return executed(path.read_text())
    names = {}
    for cell in cells:
        shown = value("".join(cell["source"]), names)
        assert shown is None or repr(shown)
        html = getattr(shown, "_repr_html_", lambda: "<p></p>")()
        assert "<" in html


def value(text, names):
    """Run a cell: the value of the expression at its end, which a notebook shows."""
    *statements, last = ast.parse(text).body
    shows = isinstance(last, ast.Expr)
    exec(compile(ast.Module(statements if shows else [*statements, last], []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if shows else None


def executed(text):
    """Run a notebook as Jupyter does."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.reads(text, as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(ROOT)}}).execute()


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "python").glob("*.py")), ids=lambda path: path.name)
def test_every_example_runs(path):
    needed = re.findall(r"^# needs: (\w+)", path.read_text(), re.MULTILINE)
    for name in needed:
        pytest.importorskip(name)
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert ran.returncode == 0 and ran.stdout, ran.stderr


def test_examples_of_docstrings_are_right():
    package = Path(phaselink.__file__).parent
    tried = 0
    for path in package.glob("_[a-z]*.py"):
        module = sys.modules[f"phaselink.{path.stem}"]
        result = doctest.testmod(module, extraglobs=vars(phaselink))
        assert result.failed == 0
        tried += result.attempted
    assert tried > 5


def test_everything_public_says_what_it_is():
    for name in phaselink.__all__:
        value = getattr(phaselink, name)
        if callable(value):
            assert inspect.getdoc(value), name
            if inspect.isclass(value):
                for method, function in vars(value).items():
                    if not method.startswith("_") and callable(function):
                        assert inspect.getdoc(getattr(value, method)), f"{name}.{method}"


def parameters(function):
    arguments = function.args
    return [it.arg for it in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]]


def test_stubs_have_the_names_and_parameters_of_the_package():
    stub = ast.parse((Path(phaselink.__file__).parent / "__init__.pyi").read_text())
    found = {node.name: node for node in stub.body if hasattr(node, "name")}
    assert set(phaselink.__all__) - {"__version__"} <= set(found)
    for name in phaselink.__all__:
        value, node = getattr(phaselink, name), found.get(name)
        if inspect.isfunction(value):
            wanted = [it.name for it in inspect.signature(value).parameters.values() if it.kind not in (it.VAR_KEYWORD, it.VAR_POSITIONAL)]
            assert parameters(node) == wanted, name
        elif inspect.isclass(value) and not issubclass(value, (Exception, tuple)):
            members = {inner.name for inner in node.body if hasattr(inner, "name")}
            members |= {inner.target.id for inner in node.body if isinstance(inner, ast.AnnAssign)}
            public = {member for member in vars(value) if not member.startswith("_")}
            assert public <= members, f"{name}: {public - members}"


def test_types_are_promised():
    assert os.path.exists(Path(phaselink.__file__).parent / "py.typed")
