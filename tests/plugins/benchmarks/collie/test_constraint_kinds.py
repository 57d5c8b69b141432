"""Which kinds of constraints fail, and which a better model meets."""

from pathlib import Path

import msgspec
import pytest

from tests.cli.command import harness, mistake, on
from tests.unsealed import unseal

QUICK = ("run", "configs/quickstart.yaml", "--limit", "26", "--name")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    for name, option in (("weak", "model.accuracy=0.2"), ("strong", "model.accuracy=0.9")):
        ended = harness(*QUICK, name, "-o", option, env=on(runs))
        assert ended.returncode == 0, ended.stderr
    return runs


def test_what_was_fixed_and_broken_by_kind(quick: Path) -> None:
    ended = harness("compare", "weak", "strong", "--constraints", "--ids", env=on(quick))
    assert ended.returncode == 0, ended.stderr
    assert "constraint " in ended.stdout
    assert "strong, fixed: with exactly N sentences" in ended.stdout
    for form in ("markdown", "csv", "latex"):
        ended = harness(
            "compare", "weak", "strong", "--constraints", "--format", form, env=on(quick)
        )
        assert "with exactly N sentences" in ended.stdout


def test_which_constraints_fail(quick: Path) -> None:
    ended = harness("show", "weak", "--constraints", env=on(quick, COLUMNS="120"))
    assert ended.returncode == 0, ended.stderr
    (row,) = (
        one for one in ended.stdout.splitlines() if one.startswith("with exactly N sentences")
    )
    assert "median" in row


def test_constraints_by_a_label_of_the_instances(quick: Path) -> None:
    lines = shown(quick, "--constraints", "--by", "structure")
    heading = next(line for line in lines if line.startswith("structure"))
    assert heading.split() == ["structure", "n", "failed", "share", "met", "±", "s.e.", "95%"]
    assert sum(line.startswith("sent01 ") for line in lines) == 1
    assert not any("observed minus wanted" in line for line in lines)


def test_their_kinds_are_a_label_too(quick: Path) -> None:
    by_kind = shown(quick, "--constraints", "--by", "constraint")
    assert by_kind == shown(quick, "--constraints")
    assert any("observed minus wanted" in line for line in by_kind)


def test_a_label_of_the_constraints_own(quick: Path) -> None:
    file = quick / "weak" / "attempts.jsonl"
    lines = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
    for number, line in enumerate(lines):
        for score in line["scores"].values():
            for found in score["details"].get("constraints", ())[: number % 2]:
                found["groups"] = {"type": "odd"}
    other = quick / "labelled"
    other.mkdir()
    for kept in ("config.yaml", "manifest.json"):
        (other / kept).write_bytes((quick / "weak" / kept).read_bytes())
    (other / "attempts.jsonl").write_bytes(
        b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    )
    unseal(other)
    ended = harness("show", "labelled", "--constraints", "--by", "type", env=on(quick))
    assert ended.returncode == 0, ended.stderr
    assert "odd " in ended.stdout
    assert "constraints without type." in ended.stdout


def test_an_unknown_label_gets_the_nearest_and_all(quick: Path) -> None:
    said = mistake(harness("show", "weak", "--constraints", "--by", "structur", env=on(quick)))
    assert "the run 'weak' have no label 'structur'" in said
    assert "Its labels: constraint, source, structure." in said
    said = mistake(harness("show", "weak", "--constraints", "--by", "x", env=on(quick)))
    assert said.count("constraint, source, structure") == 1


def shown(quick: Path, *arguments: str) -> list[str]:
    ended = harness("show", "weak", *arguments, env=on(quick, COLUMNS="120"))
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()
