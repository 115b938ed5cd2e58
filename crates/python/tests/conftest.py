"""What the tests share: the program whose figures the package has to have."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def _program():
    named = os.environ.get("PHASELINK")
    places = [named] if named else [ROOT / "target" / profile / "phaselink" for profile in ("release", "dist", "debug")]
    return next((Path(place).resolve() for place in places if Path(place).exists()), None)


@pytest.fixture(scope="session")
def program():
    """Runs the command line; gives its output."""
    path = _program()
    assert path, "no program to compare with: build it (`make python` does), or name it in PHASELINK"

    # A terminal's width is no part of the comparison; readline sets COLUMNS behind the back of os.environ.
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}

    def run(*arguments, env=environment, **options):
        words = [path, *map(str, arguments)]
        ran = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300, **options)
        assert ran.returncode in (0, 1), ran.stderr
        return ran.stdout

    run.path = path
    return run


@pytest.fixture(scope="session")
def printed(program):
    """The JSON that the command line prints."""
    return lambda *arguments, **options: json.loads(program(*arguments, **options))
