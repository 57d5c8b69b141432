"""An answer gets the same verdict whatever it came from, and whenever it is scored."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.declarations import declared_members
from harness.plugin_loader import kind
from harness.plugins.mock.server import MockServer

Case = Mapping[str, Any]

CHOICES = ["Etna", "Rhine", "Sahara", "Everest"]
NO_COMMA = {"regex_match": {"pattern": "^[^,]*$"}}
EVERY_CASE: list[Case] = [
    {"check": "numeric_match", "target": "1800", "answer": "合計は1,800円です。", "pass": True},
    {"check": "numeric_match", "target": "800", "answer": "合計は1,800円です。", "pass": False},
    {"check": "numeric_match", "target": "5", "answer": "<think>5.</think>Hm.", "pass": False},
    {"check": {"contains": {"target": "naïve"}}, "answer": "a nai\u0308ve idea", "pass": True},
    {
        "check": NO_COMMA,
        "answer": "[THINK]a, b[/THINK]c",
        "pass": True,
    },
    {"check": NO_COMMA, "answer": "<think>a", "pass": False},
    {"check": "exact_match", "target": "c", "answer": "<think>a</think>c", "pass": True},
    {"choices": CHOICES, "target": "C", "answer": "The answer is C. Answer: Z", "pass": False},
    {"choices": CHOICES, "target": "C", "answer": "First: A. Answer: (C)", "pass": True},
    {
        "extract": {"json": "answer"},
        "check": "exact_match",
        "target": "Rome",
        "answer": 'Not {"answer": "Oslo"} but {"answer": "Rome"}',
        "pass": True,
    },
]


CHECKERS = kind("checkers").names()
EXTRACTIONS = {"regex", *declared_members("extractions")}
HAS_CHOICES = "task.choices" in declared_members("section_builders")


def is_shipped(case: Case) -> bool:
    """Whether the checker, the extraction and the form of question of a case are installed."""
    check = case.get("check")
    name = next(iter(check)) if isinstance(check, dict) else check
    if "choices" in case and not HAS_CHOICES:
        return False
    return (name is None or name in CHECKERS) and EXTRACTIONS.issuperset(case.get("extract", ()))


CASES = [case for case in EVERY_CASE if is_shipped(case)]


def run_files(cases: Iterable[Case], folder: Path) -> list[dict[str, Any]]:
    """Write the rows of cases to files, and return a run file without a model for each."""
    by_form: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number, case in enumerate(cases):
        form = json.dumps([case.get("extract"), "choices" in case])
        row = {"id": str(number), "question": f"{number}?"}
        row |= {key: case[key] for key in ("target", "choices") if key in case}
        if "check" in case:
            row["checks"] = [case["check"]]
        by_form[form].append(row)
    files = []
    for form, rows in by_form.items():
        extract, by_letter = json.loads(form)
        path = folder / f"rows{len(files)}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        task = {"name": "jsonl", "path": str(path)}
        if extract is not None:
            task["extract"] = extract
        if not by_letter:
            task["prompt"] = "{{ question }}"
        files.append({"task": task})
    return files


def verdicts(
    files: Iterable[dict[str, Any]], model: dict[str, Any], name: str
) -> dict[str, tuple[bool | None, str]]:
    """Run the files with a model, and return the verdict and outcome of each case."""
    results = {}
    for number, file in enumerate(files):
        run = harness.run({**file, "model": model}, name=f"{name}{number}")
        for attempt in run.attempts():
            results[attempt.instance] = attempt.passed, attempt.outcome
    return results


def application(cases: Iterable[Case], folder: Path) -> dict[str, Any]:
    """Write a function that answers as in the cases, and return the model that calls it."""
    path = folder / "app.py"
    answers = [case["answer"] for case in cases]
    path.write_text(
        f"ANSWERS = {answers!r}\n\n\ndef answer(prompt):\n"
        "    return ANSWERS[int(prompt.partition('?')[0])]\n"
    )
    return {"backend": str(path)}


def answer_to(prompt: str) -> str:
    """Return the answer of the case whose number the prompt begins with."""
    return str(CASES[int(prompt.partition("?")[0])]["answer"])


@pytest.fixture
def expected() -> dict[str, bool]:
    return {str(number): case["pass"] for number, case in enumerate(CASES)}


def passed(results: Mapping[str, tuple[bool | None, str]]) -> dict[str, bool | None]:
    return {instance: verdict for instance, (verdict, _) in results.items()}


def test_a_function(tmp_path: Path, expected: dict[str, bool]) -> None:
    files = run_files(CASES, tmp_path)
    assert passed(verdicts(files, application(CASES, tmp_path), "function")) == expected


PROVIDERS = ["openai", "openai_responses", "anthropic"]
INSTALLED = [name for name in PROVIDERS if name in kind("backends").names()]


@pytest.mark.parametrize("backend", INSTALLED)
def test_a_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, bool], backend: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")

    with MockServer(answers=lambda request, _: answer_to(request.prompt)) as server:
        url = server.url if backend == "anthropic" else f"{server.url}/v1"
        model = {"backend": backend, "name": "m", "base_url": url}
        files = [{**file, "decoding": {"max_tokens": 300}} for file in run_files(CASES, tmp_path)]
        assert passed(verdicts(files, model, backend)) == expected


def test_the_cases_beside_the_reference_data(tmp_path: Path, data_dir: Path) -> None:
    path = data_dir.parent / "cases" / "scoring.json"
    if not path.is_file():
        pytest.skip("no cases beside the reference data")
    cases = [case for case in json.loads(path.read_text()) if is_shipped(case)]
    results = verdicts(run_files(cases, tmp_path), application(cases, tmp_path), "cases")
    for number, case in enumerate(cases):
        verdict, outcome = results[str(number)]
        assert verdict == case["pass"], case
        assert outcome == case.get("outcome", outcome), case
