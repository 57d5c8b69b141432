"""Made-up runs, and hostile texts for their attempts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from harness.plugins.exchange.exported_run import ExportedRun
from harness.records import SCHEMA_VERSION, Attempt, Score, Usage, replace_surrogates
from harness.store.files import write_json
from harness.store.index import AttemptIndex
from harness.store.json_lines import JsonLinesWriter
from harness.store.run_folder import RunFolder
from tests.conftest import run_file

texts = st.one_of(
    st.text(max_size=20).map(replace_surrogates),
    st.sampled_from(["", "=1+1", '"', "a\nb\r\nc", "\0", "🙂,;\t", "NULL", "nan", "\ufeff", "'"]),
)
numbers = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100)
usages = st.builds(Usage, *[st.integers(0, 2**31 - 1)] * 4)
made_scores = st.builds(
    Score,
    value=st.none() | st.booleans() | numbers,
    passed=st.none() | st.booleans(),
    reason=texts,
    details=st.dictionaries(texts, texts | st.integers(-(2**62), 2**62) | st.none(), max_size=2),
)


def attempt(instance: str = "i", sample: int = 0, round_: int = 1, **changes: Any) -> Attempt:
    """An attempt, with the given fields changed."""
    kept: dict[str, Any] = {"model": "m", "messages_hash": "0" * 32}
    asked = {"messages": [{"role": "user", "content": f"Do {instance}."}]}
    values: dict[str, Any] = {
        "v": SCHEMA_VERSION,
        "instance": instance,
        "sample": sample,
        "round": round_,
        "groups": {"parity": "odd"},
        "cluster": instance,
        "request": kept | (asked if round_ == 1 else {"follows": round_ - 1}),
        "outcome": "ok",
        "started_at": 1.5,
        "ended_at": 2.25,
        "text": "done",
        "finish_reason": "stop",
        "passed": True,
        "scores": {"exact": Score(True, True)},
    }
    return Attempt(**values | changes)


@st.composite
def attempts(draw: st.DrawFn) -> list[Attempt]:
    """Attempts of several samples, with one to three rounds each, in any order."""
    keys = draw(st.lists(st.tuples(texts.filter(bool), st.integers(0, 3)), max_size=5, unique=True))
    found = []
    for instance, sample in keys:
        for round_ in range(1, draw(st.integers(1, 3)) + 1):
            found.append(
                attempt(
                    instance,
                    sample,
                    round_,
                    groups=draw(st.dictionaries(texts, texts, max_size=2)),
                    outcome=draw(st.sampled_from(["ok", "error", "empty", "truncated"])),
                    passed=draw(st.none() | st.booleans()),
                    text=draw(st.none() | texts),
                    reasoning=draw(st.none() | texts),
                    feedback=draw(st.none() | texts),
                    error=draw(st.none() | texts),
                    call_id=draw(st.none() | st.just("ab" * 16)),
                    usage=draw(st.none() | usages),
                    cost_usd=draw(st.none() | st.floats(0, 1e9)),
                    latency_s=draw(st.none() | st.floats(0, 1e9)),
                    cached=draw(st.booleans()),
                    scores=draw(
                        st.dictionaries(st.sampled_from(["a", "A", 'b"', "ü"]), made_scores)
                    ),
                )
            )
    return found


def run(folder: Path, found: Iterable[Attempt], simulated: bool = False) -> ExportedRun:
    """A run to export."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "attempts.jsonl"
    path.unlink(missing_ok=True)
    with JsonLinesWriter(path) as writer:
        for one in found:
            writer.append(one)
    return ExportedRun(
        folder=RunFolder(folder.parent, folder.name),
        manifest={"task": "sums", "model": "m", "simulated": simulated},
        index=AttemptIndex(path),
    )


def whole_run(root: Path, name: str, found: Iterable[Attempt], **manifest: Any) -> RunFolder:
    """A run's folder with all files that the commands read."""
    run(root / name, found)
    folder = RunFolder(root, name)
    folder.write_config(run_file())
    told = {
        "id": name,
        "task": "sums",
        "model": "m",
        "fingerprint": {"dataset": "sums"},
        "sessions": [{"started_at": 1.0, "ended_at": 2.0, "ended": "finished"}],
        "started_at": 1.0,
        "ended_at": 2.0,
        "owed": 0,
    } | manifest
    write_json(folder.manifest, told)
    return folder
