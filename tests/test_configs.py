"""Every run file that is shipped can be read, and names parts that there are."""

from pathlib import Path

import pytest

from harness.config.loading import load_variants
from harness.plugin_loader import kind
from harness.store.run_folder import RunFolder

FILES = sorted((Path(__file__).parents[1] / "configs").glob("*"))


def test_there_are_configs_and_nothing_else_beside_them() -> None:
    assert {"jsonl_example.yaml", "jsonl_judged.yaml"} <= {file.name for file in FILES}
    assert {file.suffix for file in FILES} == {".yaml"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_shipped_run_file_is_valid(file: Path, tmp_path: Path) -> None:
    for variant, run in load_variants(file).items():
        RunFolder(tmp_path, f"{file.stem}.{variant}" if variant else file.stem)
        options = {key: value for key, value in run.task.options.items() if key != "rows"}
        kind("tasks").validate_options(run.task.name, options)
        kind("backends").validate_options(run.model.backend, run.model.options)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_shipped_run_file_says_what_it_is_for_and_what_it_needs(file: Path) -> None:
    assert file.read_text().startswith("# ")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_variants_with_feedback_have_as_many_independent_answers_beside_them(file: Path) -> None:
    runs = load_variants(file)
    rounds = {run.rounds.max for run in runs.values()}
    if len(rounds) == 1:  # feedback is not what the variants are compared by
        return
    controls = set()
    for run in runs.values():
        if run.rounds.max == 1 and run.decoding.temperature != 0:
            controls.add(run.measure)
    assert {f"pass@{most}" for most in rounds if most > 1} <= controls
