"""Types: those of keys are the schema's, and those of the private module are its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_types_of_keys_are_those_of_the_schema() -> None:
    schema = (ROOT / "docs/schema/experiment.json").read_text()
    script = ROOT / "scripts/python-keys"
    made = subprocess.run(
        [sys.executable, script], input=schema, check=True, capture_output=True, text=True
    )
    # make bless writes it.
    assert made.stdout == (ROOT / "python/knee/_keys.py").read_text()


def test_the_stub_is_that_of_the_module() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "knee._knee", "--ignore-missing-stub"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout
