"""The shape of metrics.json."""

from pathlib import Path

import msgspec
import pytest

from harness.analysis.metrics import decode_metrics, encode_metrics
from harness.errors import DataInvalid

PATH = Path("runs/r/metrics.json")


@pytest.fixture
def document(make, summary_of) -> dict:
    attempts = [make(name, name == "a", groups={"structure": "word01"}) for name in "ab"]
    return msgspec.json.decode(encode_metrics(summary_of(attempts)))


def test_keys_that_others_rely_on(document: dict) -> None:
    assert document["schema_version"] == 1
    assert (document["run"], document["task"]) == ("r", "t")
    assert (document["n_instances"], document["n_attempts"]) == (2, 2)
    assert list(document["outcomes"]) == [
        "ok",
        "truncated",
        "refused",
        "empty",
        "unparseable",
        "error",
    ]
    assert document["overall"].items() >= {"pass_rate": 0.5, "stderr": 0.5, "n": 2}.items()
    assert document["overall"]["ci95"] == pytest.approx([0.0126, 0.9874], abs=1e-4)
    group = document["groups"]["structure"]["word01"]
    assert group.items() >= {"pass_rate": 0.5, "stderr": 0.5, "n": 2}.items()
    assert group["rounds"]["each"] == {"1": 0.5}
    assert document["pass_at_k"] == {"1": 0.5}
    assert document["rounds"]["each"] == {"1": 0.5}
    assert document["rounds"]["n"] == {"1": 2}
    assert document["rounds"]["any_of_first_k"] == {"1": 0.5}
    assert document["cost_usd"] == 0.0
    assert document["usage"]["input_tokens"] == 0


def test_comes_back_as_it_was(make, summary_of) -> None:
    metrics = summary_of([make("a", True, groups={"structure": "word01"}), make("b", None)])
    assert decode_metrics(encode_metrics(metrics), PATH) == metrics


def test_keys_of_a_task_or_a_later_version_are_ignored(document: dict) -> None:
    decode_metrics(msgspec.json.encode(document | {"metrics": {"rouge_l": 0.4}}), PATH)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "not a run's metrics"),
        (b"[]", "not a run's metrics"),
        (b'{"schema_version":1}', "not a run's metrics"),
        (b'{"schema_version":2}', "schema version 2, this harness reads version 1"),
    ],
)
def test_others_are_refused_by_name(text: bytes, problem: str) -> None:
    with pytest.raises(DataInvalid, match=f"metrics.json: {problem}"):
        decode_metrics(text, PATH)


def test_the_short_text_names_what_can_be_read(make, summary_of) -> None:
    metrics = summary_of([make("a", True), make("b", False), make("c", None)])
    assert "pass_rate=0.5, ci95=(0.01258, 0.9874), n=2, not_judged=1, n_clusters=3" in repr(metrics)
    assert (metrics.n, metrics.not_judged) == (2, 1)
    assert (metrics.ci95, metrics.stderr) == (metrics.overall.ci95, metrics.overall.stderr)
