"""Types of the package, by checkers that others have written."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def _checker(name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")

    # Checkers look for packages where the first `python` of the path does.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

    def run(*words):
        ran = subprocess.run(
            [sys.executable, "-m", name, *words],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=ROOT,
            env={**os.environ, "PATH": path},
        )
        return ran.returncode, ran.stdout + ran.stderr

    return run


def test_every_public_symbol_has_a_known_type():
    code, text = _checker("pyright")("--verifytypes", "phaselink", "--ignoreexternal")
    assert code == 0 and re.search(r"completeness score: 100(\.0)?%", text), text[-3000:]


def test_examples_pass_the_strictest_check():
    pytest.importorskip("optuna")
    code, text = _checker("mypy")("--strict", "examples/python")
    assert code == 0, text
