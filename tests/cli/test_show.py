"""`harness show`: a run's base constraints by a label, and what it must refuse."""

from pathlib import Path

import msgspec
import pytest

from tests.cli.command import harness, mistake
from tests.cli.test_compare import QUICK, on


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    ended = harness(*QUICK, "weak", "-o", "model.accuracy=0.2", env=on(runs))
    assert ended.returncode == 0, ended.stderr
    return runs


def shown(runs: Path, *arguments: str) -> list[str]:
    ended = harness("show", "weak", *arguments, env=on(runs, COLUMNS="120"))
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_constraints_by_a_label_of_the_instances(runs: Path) -> None:
    lines = shown(runs, "--constraints", "--by", "structure")
    heading = next(line for line in lines if line.startswith("structure"))
    assert heading.split() == ["structure", "n", "failed", "share", "met", "±", "s.e.", "95%"]
    assert sum(line.startswith("sent01 ") for line in lines) == 1
    assert not any("observed minus wanted" in line for line in lines)


def test_their_kinds_are_a_label_too(runs: Path) -> None:
    by_kind = shown(runs, "--constraints", "--by", "constraint")
    assert by_kind == shown(runs, "--constraints")
    assert any("observed minus wanted" in line for line in by_kind)


def test_a_label_of_the_constraints_own(runs: Path) -> None:
    file = runs / "weak" / "attempts.jsonl"
    lines = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
    for number, line in enumerate(lines):
        for score in line["scores"].values():
            for found in score["details"].get("constraints", ())[: number % 2]:
                found["groups"] = {"type": "odd"}
    other = runs / "labelled"
    other.mkdir()
    for kept in ("config.yaml", "manifest.json"):
        (other / kept).write_bytes((runs / "weak" / kept).read_bytes())
    (other / "attempts.jsonl").write_bytes(
        b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    )
    ended = harness("show", "labelled", "--constraints", "--by", "type", env=on(runs))
    assert ended.returncode == 0, ended.stderr
    assert "odd " in ended.stdout
    assert "constraints without type." in ended.stdout


def test_an_unknown_label_gets_the_nearest_and_all(runs: Path) -> None:
    said = mistake(harness("show", "weak", "--constraints", "--by", "structur", env=on(runs)))
    assert "the run 'weak' have no label 'structur'" in said
    assert "Its labels: constraint, source, structure." in said
    said = mistake(harness("show", "weak", "--constraints", "--by", "x", env=on(runs)))
    assert said.count("constraint, source, structure") == 1


@pytest.mark.parametrize(
    "others", [(), ("--instance", "sent01/0"), ("--instance", "sent01/0", "--constraints")]
)
def test_by_goes_with_constraints_alone(runs: Path, others: tuple[str, ...]) -> None:
    said = mistake(harness("show", "weak", *others, "--by", "structure", env=on(runs)))
    assert "use it with --constraints" in said
    assert "harness show weak --constraints --by structure" in said
