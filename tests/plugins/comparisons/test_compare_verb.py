"""`harness compare`: the recorded models against each other, and what it must refuse."""

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import QUICK, begun, harness, mistake, on
from tests.rows import WORDS


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulated runs: two that differ in skill, one with feedback, one of other instances."""
    runs = tmp_path_factory.mktemp("runs")
    for name, option in (
        ("weak", "model.accuracy=0.2"),
        ("strong", "model.accuracy=0.9"),
        ("taught", "rounds.max=3"),
        ("others", "seed=1"),
    ):
        ended = harness(*QUICK, name, "-o", option, env=on(runs))
        assert ended.returncode == 0, ended.stderr
    return runs


def compared(runs: Path, *arguments: str) -> dict[str, Any]:
    ended = harness("compare", *arguments, "--format", "json", env=on(runs))
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_a_run_file_with_variants_ends_with_their_comparison(tmp_path: Path) -> None:
    variants = "variants={zero: {}, taught: {rounds.max: 4}, better: {model.accuracy: 1.0}}"
    ended = harness(*QUICK, "three", "-o", variants, env=on(tmp_path, COLUMNS="100"))
    assert ended.returncode == 0, ended.stderr
    printed = ended.stdout[ended.stdout.index("jsonl: against three.zero") :]
    found = next(one for one in printed.splitlines() if one.startswith("three.better"))
    json_ = compared(tmp_path, "three.zero", "three.taught", "three.better")
    better = json_["others"][1]["overall"]
    assert f"{better['difference']:+.4f}" in found
    assert "p (Holm): adjusted" not in printed, "only one of the two pairs has a p value"
    assert "harness compare three;" in ended.stderr


def test_runs_without_labels_are_not_sent_to_averages_over_groups(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"q": "a", "target": "x"}\n{"q": "b", "target": "y"}\n')
    (tmp_path / "plain.yaml").write_text(
        "task: {path: rows.jsonl, prompt: '{{ q }}', checks: [exact_match]}\n"
        "model: {backend: simulated}\nvariants: {one: {}, other: {task.prompt: 'Say {{ q }}'}}\n"
    )
    ended = harness("run", tmp_path / "plain.yaml", env=on(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert "harness show plain --side-by-side" in ended.stderr
    assert "ablation" not in ended.stderr


def test_variants_of_several_tasks_end_with_a_table_of_benchmarks(tmp_path: Path) -> None:
    variants = "variants={ours: {}, theirs: {task.as: theirs, samples: 2}}"
    ended = harness(*QUICK, "two", "-o", variants, env=on(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("jsonl, jsonl:theirs\n")
    assert "every pair tested: harness matrix two" in ended.stderr


def test_runs_against_a_baseline(quick: Path) -> None:
    found = compared(quick, "weak", "strong", "taught", "--baseline", "strong", "--by", "structure")
    assert found["baseline"] == "strong"
    assert [one["run"] for one in found["others"]] == ["weak", "taught"]
    weak = found["others"][0]
    assert weak["marks"] == ["SIMULATED"]
    assert weak["overall"]["difference"] < 0
    assert len(weak["worse"]) == weak["overall"]["worse"] > 0
    assert set(weak["better"]).isdisjoint(weak["worse"])
    assert any("rounds.max" in note for note in found["notes"])


def test_instances_that_only_one_run_has_are_counted(quick: Path) -> None:
    (found,) = compared(quick, "weak", "others")["others"]
    overall = found["overall"]
    assert overall["n"] + overall["only_first"] == overall["n"] + overall["only_second"] == 26
    assert overall["only_first"] > 0
    said = harness("compare", "weak", "others", env=on(quick, COLUMNS="200")).stdout
    assert f"{overall['only_first']:,} instances only in the baseline" in said
    assert "not counted as failures" in said


@pytest.mark.parametrize("width", ["50", "80", "120"])
def test_the_printed_table(width: str, quick: Path) -> None:
    ended = harness(
        "compare", "weak", "strong", "--by", "structure", "--ids", env=on(quick, COLUMNS=width)
    )
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert all(len(line) <= int(width) for line in lines)
    assert "SIMULATED" in ended.stdout
    assert any(line.startswith("word01") for line in lines)
    assert any(line.startswith("strong, better than weak (") for line in lines)
    assert ("the terminal is too narrow" in ended.stdout) == (width != "120")


def test_the_other_formats(quick: Path) -> None:
    def told(form: str) -> str:
        ended = harness(
            "compare", "weak", "strong", "--by", "structure", "--format", form, env=on(quick)
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    found = compared(quick, "weak", "strong", "--by", "structure")["others"][0]
    rows = list(csv.DictReader(io.StringIO(told("csv"))))
    assert len(rows) == 1 + 13
    assert float(rows[0]["difference"]) == found["overall"]["difference"]
    assert [row["group"] for row in rows[1:]] == list(found["groups"])
    assert "| strong (SIMULATED) | 26 |" in told("markdown")
    latex = told("latex").splitlines()
    assert latex[0] == r"\begin{tabular}{lrrrrrrrr}"
    assert sum(line.endswith(r"\\") for line in latex) == 2 + 1 + 13
    assert r"strong (SIMULATED) & 26" in latex[4]
    assert all(line.startswith("% ") for line in latex[latex.index(r"\end{tabular}", 20) + 1 :])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("weak",), "Only one run was named"),
        (("weak", "weak"), "'weak' is named twice"),
        (("weak", "strnog"), "no run 'strnog'"),
        (("weak", "strong", "--by", "structur"), "no label 'structur'"),
        (("weak", "strong", "--cluster", "x"), "no label 'x'"),
        (("weak", "strong", "--score", "x"), "has no score 'x'"),
        (("weak", "strong", "--round", "9"), "None of the runs has a round 9"),
        (("weak", "strong", "--baseline", "weka"), "not one of the runs"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], said: str, quick: Path) -> None:
    assert said in mistake(harness("compare", *arguments, env=on(quick)))


def test_runs_of_other_tasks_are_not_compared(quick: Path, tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text("from tests.conftest import Sums\n\nplugin = Sums\n")
    file = tmp_path / "sums.yaml"
    file.write_text("task: {name: ./sums.py}\nmodel: simulated\n")
    ended = harness("run", file, env=on(quick))
    assert ended.returncode == 0, ended.stderr
    assert "different tasks" in mistake(harness("compare", "weak", "sums", env=on(quick)))


def test_runs_of_renamed_variants_are_left_out_and_the_first_in_the_file_is_the_baseline(
    tmp_path: Path,
) -> None:
    file = tmp_path / "mine.yaml"
    rows = "[{prompt: a, target: a}, {prompt: b, target: b}]"
    base = f"task: {{rows: {rows}, checks: exact_match}}\nmodel: simulated\nlimit: 2\n"
    for variants in ("old: {model.accuracy: 0}, x: {}", "new: {samples: 2}, x: {}"):
        file.write_text(f"{base}variants: {{{variants}}}\n")
        assert harness("run", file, env=on(tmp_path)).returncode == 0
    for named in ("mine", str(file)):
        found = compared(tmp_path, named)
        assert (found["baseline"], [one["run"] for one in found["others"]]) == (
            "mine.new",
            ["mine.x"],
        )
    for model in ("simulated/0.1", "simulated/0.9"):
        checked = ("-o", "task.prompt={{ target }}", "-o", "task.checks=exact_match")
        harness("eval", WORDS["path"], "--model", model, "--limit", "2", *checked, env=on(tmp_path))
    assert len(compared(tmp_path, "eval")["others"]) == 1  # evaluations add to each other
    assert harness("rm", "mine", "--yes", env=on(tmp_path)).returncode == 0
    assert not [*tmp_path.glob("mine.*/")]


def test_variants_that_were_added_or_removed_since_the_last_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "mine.yaml"
    checked = ("check", file, "--min", "pass_rate=0.0001", "--too-few", "pass")

    def write(variants: str) -> None:
        rows = "[{prompt: a, target: a}, {prompt: b, target: b}]"
        base = f"task: {{rows: {rows}, checks: exact_match}}\nmodel: simulated/1\nlimit: 2\n"
        file.write_text(f"{base}variants: {{{variants}}}\n")

    write("a: {}, b: {samples: 2}")
    assert harness("run", file, env=on(tmp_path)).returncode == 0
    write("a: {}, b: {samples: 2}, c: {samples: 3}")
    said = mistake(harness(*checked, env=on(tmp_path)))
    assert "mine.c has not been run" in said
    assert f"Run the file with harness run {file}" in " ".join(said.split())
    assert harness("table", file, env=on(tmp_path)).returncode == 0
    assert caplog.messages[-1].startswith("mine.c has not been run: run the file with")
    write("b: {samples: 2}")
    ended = harness(*checked, env=on(tmp_path))
    assert ended.returncode == 0, ended.stderr
    assert caplog.messages[-1].startswith("Left out: mine.a. ")
    assert harness("run", file, env=on(tmp_path)).returncode == 0
    for named in ("mine", file):
        for verb in (("show",), ("table",), ("check", "--min", "pass_rate=0", "--too-few", "pass")):
            ended = harness(verb[0], named, *verb[1:], env=on(tmp_path))
            assert ended.returncode == 0, ended.stderr
    assert harness("rm", file, "--yes", env=on(tmp_path)).returncode == 0
    assert not [*tmp_path.glob("mine.*/")]


def test_a_variant_without_a_folder_is_named_by_all_readers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "mine.yaml"
    rows = "[{prompt: a, target: a}, {prompt: b, target: b}]"
    common = f"task: {{rows: {rows}, checks: exact_match}}\nmodel: simulated/1\n"
    file.write_text(f"{common}variants: {{a: {{}}, b: {{samples: 2}}, c: {{samples: 3}}}}\n")
    gate = ("check", "mine", "--min", "pass_rate=0.0001", "--too-few", "pass")
    warning = "mine.c has not been run, or the folder is lost: repeat the command that ran 'mine'"

    assert harness("run", file, env=on(tmp_path)).returncode == 0
    assert harness(*gate, env=on(tmp_path)).returncode == 0
    assert not caplog.messages
    shutil.rmtree(tmp_path / "mine.c")
    said = " ".join(mistake(harness(*gate, env=on(tmp_path))).split())
    assert "mine.c has not been run, or the folder is lost. Repeat the command that" in said
    assert "or name the runs: mine.a, mine.b." in said
    exported = ("export", "mine", "--output", tmp_path / "x.csv")
    report = ("report", "mine", "--output", tmp_path / "x.html")
    readers = (("show", "mine"), ("table", "mine"), ("compare", "mine"), ("matrix", "mine"))
    for reader in (*readers, exported, report):
        caplog.clear()
        ended = harness(*reader, env=on(tmp_path))
        assert ended.returncode == 0, ended.stderr
        assert [text for text in caplog.messages if text.startswith(warning)]

    caplog.clear()
    assert harness(gate[0], "mine.a", "mine.b", *gate[2:], env=on(tmp_path)).returncode == 0
    assert not caplog.messages
    shutil.rmtree(tmp_path / "mine.b")
    named = (gate[0], "mine.a", *gate[2:], "--baseline", "mine", "--max-drop", "0.9")
    assert "have not been run" in mistake(harness(*named, env=on(tmp_path)))
    file.write_text(f"{common}variants: {{a: {{}}, b: {{samples: 2}}}}\n")  # without c
    assert harness("run", file, env=on(tmp_path)).returncode == 0
    assert harness(*gate, env=on(tmp_path)).returncode == 0
    assert not [text for text in caplog.messages if "not been run" in text]


def test_a_run_of_an_evaluation_without_a_folder_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def evaluated(*models: str) -> None:
        command = ("eval", "ifeval", "--model", ",".join(models), "--limit", "2", "--yes")
        assert harness(*command, env=on(tmp_path)).returncode == 0

    gate = ("--min", "pass_rate=0.0001", "--too-few", "pass", "--max-unjudged", "1")
    evaluated("simulated/1", "simulated/0.8")
    evaluated("simulated/0.9")  # is added to the two
    assert len(list(tmp_path.glob("eval.ifeval.*"))) == 3
    shutil.rmtree(tmp_path / "eval.ifeval.simulated-0.8")
    for name in ("eval", "eval.ifeval"):
        said = mistake(harness("check", name, *gate, env=on(tmp_path)))
        assert "eval.ifeval.simulated-0.8 has not been run" in said
    assert harness("table", "eval", env=on(tmp_path)).returncode == 0
    assert caplog.messages[-1].startswith("eval.ifeval.simulated-0.8 has not been run")
    evaluated("simulated/1", "simulated/0.9")  # without it
    caplog.clear()
    assert harness("table", "eval", env=on(tmp_path)).returncode == 0
    assert not caplog.messages


def test_a_copy_in_the_place_of_a_variant_is_no_run_of_it(tmp_path: Path) -> None:
    variants = "variants={good: {model.accuracy: 1.0}, bad: {model.accuracy: 0.0}}"
    assert harness(*QUICK, "q", "-o", variants, env=on(tmp_path)).returncode == 0
    shutil.rmtree(tmp_path / "q.bad")
    shutil.copytree(tmp_path / "q.good", tmp_path / "q.bad")
    gate = ("check", "q", "--min", "pass_rate=0.5")
    assert "q.bad has not been run" in mistake(harness(*gate, env=on(tmp_path)))


def test_variants_that_were_scored_with_two_versions_of_a_check_are_named_by_all_readers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A session that scores the variants again was killed between two of them."""
    file, code, runs = tmp_path / "q.yaml", tmp_path / "mine.py", tmp_path / "runs"
    code.write_text("def mine(text):\n    return 'answer' in text\n")
    rows = json.dumps([{"prompt": f"Q {number}", "target": "answer"} for number in range(8)])
    file.write_text(
        f"task: {{rows: {rows}, checks: [./mine.py]}}\nmodel: simulated/0.5\n"
        "variants: {a: {seed: 1}, b: {seed: 2}}\n"
    )
    assert harness("run", file, env=on(runs)).returncode == 0
    shutil.copytree(runs / "q.b", tmp_path / "before")
    code.write_text("def mine(text):\n    return True\n")
    assert begun("run", file, "--rescore", env=on(runs)).ended().returncode == 0
    gate = ("check", "q", "--min", "pass_rate=0", "--too-few", "pass")
    assert harness(*gate, env=on(runs)).returncode == 0
    shutil.rmtree(runs / "q.b")
    shutil.copytree(tmp_path / "before", runs / "q.b")
    problem = "q.a and q.b were made or scored with different versions of ./mine.py"
    assert f"{problem}. Run the file" in " ".join(mistake(harness(*gate, env=on(runs))).split())
    exported = ("export", "q", "--output", tmp_path / "x.csv")
    for reader in (("show", "q"), ("table", "q"), ("compare", "q"), ("matrix", "q"), exported):
        caplog.clear()
        assert harness(*reader, env=on(runs)).returncode == 0
        assert [text for text in caplog.messages if problem in text], reader
    assert begun("run", file, "--rescore", env=on(runs)).ended().returncode == 0
    assert harness(*gate, env=on(runs)).returncode == 0


@pytest.mark.parametrize("varied", ["seed: {}", 'task.prompt: "{} {{{{ prompt }}}}"'])
@pytest.mark.parametrize("edited", ["task.checks", "the data"])
def test_variants_that_were_scored_with_two_versions_of_an_option_or_of_data_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, edited: str, varied: str
) -> None:
    """Only one variant was scored again. What the variants themselves vary is no difference."""
    file, runs, rows = tmp_path / "q.yaml", tmp_path / "runs", tmp_path / "rows.jsonl"

    def write(check: str, target: str) -> None:
        row = '{{"prompt": "Q {}", "target": "{}"}}\n'
        rows.write_text("".join(row.format(number, target) for number in range(8)))
        file.write_text(
            f"task: {{path: rows.jsonl, prompt: '{{{{ prompt }}}}', checks: [{check}]}}\n"
            "model: simulated/0.5\n"
            f"variants: {{a: {{{varied.format(1)}}}, b: {{{varied.format(2)}}}}}\n"
        )

    write("contains: {ignore_case: true}", "answer")
    assert harness("run", file, env=on(runs)).returncode == 0
    gate = ("check", "q", "--min", "pass_rate=0", "--too-few", "pass")
    assert harness(*gate, env=on(runs)).returncode == 0
    shutil.copytree(runs / "q.b", tmp_path / "before")
    if edited == "the data":
        write("contains: {ignore_case: true}", "other")
    else:
        write("contains", "answer")
    assert begun("run", file, "--rescore", env=on(runs)).ended().returncode == 0
    assert harness(*gate, env=on(runs)).returncode == 0
    shutil.rmtree(runs / "q.b")
    shutil.copytree(tmp_path / "before", runs / "q.b")
    problem = f"q.a and q.b were made or scored with different versions of {edited}"
    assert f"{problem}. Run the file" in " ".join(mistake(harness(*gate, env=on(runs))).split())
    for reader in ("show", "table", "compare"):
        caplog.clear()
        refused = edited == "the data" and reader != "show"
        assert harness(reader, "q", env=on(runs)).returncode == int(refused)
        assert [text for text in caplog.messages if problem in text], reader


def test_a_check_that_the_variants_vary_is_no_difference(tmp_path: Path) -> None:
    variants = "variants={a: {task.checks: [contains]}, b: {task.checks: [contains: {target: e}]}}"
    assert harness(*QUICK, "q", "-o", variants, env=on(tmp_path)).returncode == 0
    gate = ("check", "q", "--min", "pass_rate=0", "--too-few", "pass")
    assert harness(*gate, env=on(tmp_path)).returncode == 0
