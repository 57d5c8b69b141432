"""The same choices give the same instances and verdicts, whatever they are read from."""

from pathlib import Path

import pytest

from tests.tasks.test_sources import SOURCES, Row, task

CHOICES: list[Row] = [
    {"question": "Which?", "choices": ["yes", "no"], "target": "no"},
    {"question": "Which time?", "choices": ["12:30", "1.0", "1.00"], "target": "1.00"},
]


@pytest.mark.parametrize("source", SOURCES)
def test_choices_are_the_same_from_all_sources(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    if source == "a.xlsx":
        pytest.importorskip("python_calamine")
    built = task(source, CHOICES, tmp_path)
    instances = list(built.instances())
    assert [instance.data.options.texts for instance in instances] == [
        tuple(row["choices"]) for row in CHOICES
    ]
    assert [instance.data.options.right for instance in instances] == [1, 2]
    assert built.score(instances[0], "no")["choice"].passed
