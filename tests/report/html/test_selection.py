from pathlib import Path

from msgspec import Struct

from harness.report.html.archive import Selection, select
from harness.report.runs import ReportedRun
from harness.store.columns import name_digest
from tests.report.html.pages import attempt, reported_run


class Name(Struct):
    instance: str
    sample: int
    round: int


def names(run: ReportedRun, selection: Selection, at: int) -> list[str]:
    lines = run.index.read(Name, selection.rows[at])
    return [f"{line.instance}.{line.sample}.{line.round}" for line in lines]


def test_instances_are_in_the_order_of_the_first_run(tmp_path: Path) -> None:
    first = [attempt("b"), attempt("a", 1), attempt("a", 0), attempt("a", 0, 2)]
    second = [attempt("c"), attempt("a"), attempt("b")]
    runs = [
        reported_run(tmp_path / str(at), str(at), each) for at, each in enumerate([first, second])
    ]
    found = select([run.index for run in runs], None)
    assert found.digest.tolist() == [name_digest(name) for name in "bac"]
    assert names(runs[0], found, 0) == ["b.0.1", "a.0.1", "a.0.2", "a.1.1"]
    assert names(runs[1], found, 1) == ["b.0.1", "a.0.1", "c.0.1"]
    assert [counts.tolist() for counts in found.counts] == [[1, 3, 0], [1, 1, 1]]


def test_whole_instances_are_left_out_by_their_digest_in_all_runs(tmp_path: Path) -> None:
    every = [str(number) for number in range(20)]
    two = [attempt(name, sample) for name in every for sample in range(2)]
    one = [attempt(name) for name in reversed(every)]
    runs = [reported_run(tmp_path / str(at), str(at), each) for at, each in enumerate([two, one])]
    found = select([run.index for run in runs], 11)
    kept = sorted(every, key=name_digest)[:5]
    assert names(runs[0], found, 0) == [f"{n}.{s}.1" for n in every if n in kept for s in range(2)]
    assert names(runs[1], found, 1) == [f"{n}.0.1" for n in every if n in kept]


def test_one_instance_is_there_in_any_case(tmp_path: Path) -> None:
    run = reported_run(tmp_path, "run", [attempt("a", sample) for sample in range(5)])
    assert len(select([run.index], 2).rows[0]) == 5


def test_a_run_of_no_attempts(tmp_path: Path) -> None:
    found = select([reported_run(tmp_path, "run", []).index], 10)
    assert len(found.digest) == 0
    assert len(found.rows[0]) == 0
