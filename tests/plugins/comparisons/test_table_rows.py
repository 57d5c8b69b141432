"""`harness table`: the names of its rows."""

from pathlib import Path

from tests.cli.command import QUICK, harness, on


def test_rows_of_variants_have_their_names(tmp_path: Path) -> None:
    variants = "variants={plain: {}, strict: {task.prompt: 'Only write: {{ target }}'}}"
    ended = harness(*QUICK, "two", "-o", variants, env=on(tmp_path))
    assert ended.returncode == 0, ended.stderr
    said = harness("table", "two", env=on(tmp_path)).stdout
    assert "variant=strict" in said
    assert "task.prompt=" not in said
