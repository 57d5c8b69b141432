import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigError, Unparseable
from harness.plugin_loader import kind
from harness.records import Instance
from tests.installed import install_plugin

SCHEMA: dict[str, Any] = {"type": "object", "required": ["a"]}
ANY = Instance("1", None)


def test_it_is_found_by_name_and_checks() -> None:
    checker = kind("checkers").build("json_schema", {"schema": SCHEMA, "extraction": "fence"})
    assert checker.check('```\n{"a": 1}\n```', ANY).passed
    failed = checker.check("```json\n{}\n```", ANY)
    assert (failed.value, failed.reason) == (False, 'the member "a" is missing')
    with pytest.raises(Unparseable, match="no answer block"):
        checker.check('{"a": 1}', ANY)
    with pytest.raises(Unparseable, match="not JSON"):
        checker.check("```\n{\n```", ANY)


def test_the_schema_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(SCHEMA))
    options = {"schema": str(tmp_path / "a.json"), "draft": "7"}
    checker = kind("checkers").build("json_schema", options)
    assert checker.check('{"a": 1}', ANY).passed
    assert not checker.check('{"b": 1}', ANY).passed


THIRD = """
    from harness.scoring.validators import Violation, read


    def read_words(text, schema):
        return text.split()


    class Roots:
        def __init__(self, schema):
            self.schema = schema

        def read(self, text, format="json"):
            return read(text, format, schema=self.schema)

        def violations(self, value):
            return () if isinstance(value, dict) else (Violation("", "type", "object", "other"),)
"""


def test_a_package_brings_a_format_and_a_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {"document_formats": {"words": "read_words"}, "schema_validators": {"root": "Roots"}}
    install_plugin(tmp_path, THIRD, members, "third_documents")
    monkeypatch.syspath_prepend(tmp_path)
    words = kind("checkers").build("json_schema", {"schema": {"maxItems": 2}, "format": "words"})
    assert [words.check(text, ANY).passed for text in ("a b", "a b c")] == [True, False]
    root = kind("checkers").build("json_schema", {"schema": {"maxItems": 2}, "mode": "root"})
    assert [root.check(text, ANY).passed for text in ("{}", "[]")] == [True, False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": {"type": "text"}}, "breaks the rules of draft 2020-12 at /type"),
        ({"schema": {"$ref": "http://example.com/a"}}, "References are not fetched"),
        ({"schema": "no/such/file.json"}, "no/such/file.json': No such file"),
        ({"schema": [1]}, "Option 'schema"),
        ({"extraction": "fense"}, "Did you mean 'fence'"),
        ({"format": "toml"}, "Option 'format'"),
        ({"mode": "lax"}, "Option 'mode'"),
        ({"draft": "3"}, "Option 'draft'"),
        ({"schemas": {}}, "no option 'schemas'"),
    ],
)
def test_what_cannot_be_checked_is_a_config_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        kind("checkers").build("json_schema", {"schema": SCHEMA} | change)


def test_a_broken_file_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(ConfigError, match=r"checker 'json_schema'.*a.json': not JSON.*line 1"):
        kind("checkers").build("json_schema", {"schema": str(tmp_path / "a.json")})
