"""Which runs are refused beside each other, and what is said of the others."""

import pytest

from harness.config.identity import tree_by_name
from harness.errors import RunConflict
from harness.plugins.comparisons.comparable import Variant, refuse_incomparable, settings
from harness.plugins.comparisons.run_differences import differing
from tests.conftest import run_file
from tests.plugins.comparisons.variants import variant

PARTS = {"dataset_sha256": "whole", "task_sha256/a": "1", "task_sha256/b": "2"}


WHOLE = variant("whole", {"a": 0.5, "b": 0.5}, fingerprint=PARTS)


def part(**changes: str) -> Variant:
    fingerprint = {"dataset_sha256": "part", "task_sha256/a": "1"} | changes
    return variant("part", {"a": 0.5}, fingerprint=fingerprint)


def test_another_task_is_refused() -> None:
    with pytest.raises(RunConflict, match=r"'abl\.whole' and 'abl\.x' are runs of different tasks"):
        refuse_incomparable(WHOLE, [WHOLE, variant("x", {}, task="other")], "task")


@pytest.mark.parametrize("fingerprint", [{"dataset_sha256": "e"}, {"dataset": "v2"}, {}])
def test_another_data_set_is_refused(fingerprint: dict[str, str]) -> None:
    base, other = variant("base", {}), variant("other", {}, fingerprint=fingerprint)
    with pytest.raises(RunConflict, match=r"'abl\.base' and 'abl\.other'.* different data sets"):
        refuse_incomparable(base, [base, other], "task")


def test_documents_of_lm_eval_are_the_data_whatever_the_prompts() -> None:
    def made(name: str, **fingerprint: str) -> Variant:
        return variant(name, {}, task="lm_eval:sums", fingerprint=fingerprint)

    base = made("base", documents_sha256="d", prompt_sha256="p")
    other = made("other", documents_sha256="d", prompt_sha256="q")
    refuse_incomparable(base, [base, other])
    assert list(differing(base, [other])) == [
        "They were made or scored with a different prompt: other against base."
    ]
    with pytest.raises(RunConflict) as refused:
        refuse_incomparable(base, [made("more", documents_sha256="e")])
    assert refused.value.remedy.startswith("Run both files again on the same data")


def test_parts_of_one_data_set_are_compared() -> None:
    refuse_incomparable(WHOLE, [WHOLE, part()], "task")
    elsewhere = {"dataset_sha256": "z", "task_sha256/z": "9"}
    refuse_incomparable(WHOLE, [WHOLE, variant("z", {}, fingerprint=elsewhere)], "task")


def test_a_part_that_has_changed_is_refused() -> None:
    with pytest.raises(RunConflict, match=r"different data sets \(task_sha256/a\)"):
        refuse_incomparable(WHOLE, [part(**{"task_sha256/a": "other"})], "task")


def test_groups_of_another_label_are_no_pairs_where_the_parts_differ() -> None:
    with pytest.raises(RunConflict, match="use different groups of 'task'") as refused:
        refuse_incomparable(WHOLE, [part()], "category")
    assert refused.value.remedy == "Use --over task."


def test_settings_that_do_not_matter_are_left_out() -> None:
    model = {"backend": "replay", "name": "m", "where": {"encoding": "a"}, "path": "p"}
    task = {"name": "sums", "examples": {"x": 1, "y": 2}}
    found = settings(tree_by_name(run_file(model=model, task=task, limits={"rpm": 3}, samples=4)))
    assert found["samples"] == 4
    assert found["model.name"] == "m"
    assert found["task.examples"] == {"task.examples.x": 1, "task.examples.y": 2}
    assert not {"model.where", "model.path", "limits.rpm"} & found.keys()


def test_a_part_of_a_run_is_marked() -> None:
    part = variant("part", {"a": 0.5}, complete=False, n_planned=30, n_owed=25)
    assert part.marks == ["INCOMPLETE 5 of 30"]
    killed = variant("part", {"a": 0.5}, complete=False, n_planned=30, n_owed=None, n_samples=30)
    assert killed.marks == ["INCOMPLETE 30 begun of 30"]
