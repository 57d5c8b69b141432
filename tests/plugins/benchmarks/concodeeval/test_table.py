"""The paper's table of generation and validation."""

import json
from pathlib import Path

from rich.cells import cell_len

from harness.plugin_loader import kind
from tests.cli.command import harness
from tests.plugins.comparisons.test_table_verb import on, shown


def test_a_paper_s_table(tmp_path: Path) -> None:
    """Generation and validation share a row; the figures are those that the tasks declare."""
    names = ("concodeeval_generation", "concodeeval_validation")
    for name in names:
        file = tmp_path / f"{name}.yaml"
        file.write_text(f"task: {{name: {name}}}\nmodel: {{backend: simulated, accuracy: 0.6}}\n")
        assert harness("run", file, "--limit", "60", env=on(tmp_path)).returncode == 0
    found = json.loads(shown(tmp_path, *names, "--format", "json").stdout)
    tables = [kind("tasks").load(name).table for name in names]  # type: ignore[attr-defined]
    declared = [figure.name for table in tables for figure in table.figures]
    assert [figure["name"] for figure in found["figures"]] == declared
    (row,) = found["rows"]
    assert row["runs"] == list(names)
    assert all(cell is not None for cell in row["cells"])
    assert {column["group"] for column in found["columns"]} == {"json", "xml", "yaml", None}
    lines = shown(tmp_path, *names, COLUMNS="60").stdout.splitlines()
    assert all(cell_len(line) <= 60 for line in lines)
    assert "…" not in "".join(lines)
