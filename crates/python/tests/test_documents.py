"""Whatever a document shows is run: the tutorial, the examples, and the examples of docstrings."""

import ast
import contextlib
import doctest
import inspect
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import phaselink

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_tutorial_runs_and_prints_what_it_shows(monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(ROOT)
    names, printed = {}, ""
    for kind, text in BLOCK.findall((ROOT / "docs" / "python.md").read_text()):
        if kind == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(text, "docs/python.md", "exec"), names)
            printed = out.getvalue()
        elif kind == "text":
            assert printed == text
    assert names["saturated"] is not None


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
