"""Types: those of keys are the schema's, and those of the private module are its own."""

from __future__ import annotations

import hashlib
import os
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


def test_the_script_imports_nothing_from_where_it_is_called(tmp_path: Path) -> None:
    version = subprocess.run([sys.executable, "--version"], check=True, capture_output=True)
    made_of = version.stdout + (ROOT / "python/requirements.txt").read_bytes()
    # An environment that is as it must be, below a relative directory.
    (tmp_path / "built/venv").mkdir(parents=True)
    (tmp_path / "built/venv/made-of").write_text(hashlib.sha256(made_of).hexdigest() + "\n")
    (tmp_path / "venv.py").write_text("open('imported', 'w').close()\n")
    done = subprocess.run(
        [ROOT / "scripts/python", "venv"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "CARGO_TARGET_DIR": "built", "KNEE_PYTHON": sys.executable},
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "imported").exists()
