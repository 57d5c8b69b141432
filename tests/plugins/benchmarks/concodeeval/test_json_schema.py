"""The formats and the mode that the plug-in brings for the check `json_schema`."""

from pathlib import Path
from typing import Any

from harness.plugin_loader import kind
from harness.records import Instance

ANY = Instance("1", None)


def test_a_schema_in_a_yaml_file_and_an_answer_in_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("type: object\nrequired: [a]\n")
    options = {"schema": str(tmp_path / "a.yaml"), "format": "yaml", "draft": "7"}
    checker = kind("checkers").build("json_schema", options)
    assert checker.check("a: 1", ANY).passed
    assert not checker.check("b: 1", ANY).passed


def test_the_paper_mode_is_an_option() -> None:
    options: dict[str, Any] = {"schema": {"multipleOf": 0.1}}
    assert kind("checkers").build("json_schema", options).check("0.3", ANY).passed
    options["mode"] = "paper"
    assert not kind("checkers").build("json_schema", options).check("0.3", ANY).passed
