"""Scoring IFEval's recorded answers: speed beside lm-eval's copy of the published code, and whether
the verdicts are always the same.

    python scripts/bench_ifeval.py DATA --reference PYTHON [--rescore 100]

DATA has ``input_data.jsonl`` and ``responses_MODEL.jsonl.gz``. PYTHON is an interpreter with the
files of lm-eval (``pip install --no-deps lm-eval``), and with nltk, langdetect, immutabledict and
packaging. Each time is that of a fresh process, from its start to the last verdict, strict and
loose; the two are measured in turn. With --rescore, every model's answers are scored that many
times in fresh processes with other hash seeds; the script exits with 1 if a verdict differs, or if
a prompt passes strictly but not loosely.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

READ = """
import gzip, json, sys
folder, model = sys.argv[1:]
rows = list(map(json.loads, open(f"{folder}/input_data.jsonl", encoding="utf-8")))
with gzip.open(f"{folder}/responses_{model}.jsonl.gz", "rt", encoding="utf-8") as lines:
    answers = {one["prompt"]: one["response"] for one in map(json.loads, lines)}
rows = [one for one in rows if one["prompt"] in answers]
"""

OURS = (
    READ
    + """
from pathlib import Path
from harness.plugins.benchmarks.ifeval.task import read_item
from harness.plugins.benchmarks.ifeval.instructions import judge
for row in rows:
    item = read_item(row, "", "official")
    found = judge(item.instructions, answers[row["prompt"]])
    print([one.strict for one in found], [one.loose for one in found])
"""
)

REFERENCE = (
    READ
    + """
import importlib.util, types
root = importlib.util.find_spec("lm_eval").submodule_search_locations[0]
for name, folder in (("lm_eval", root), ("lm_eval.tasks", root + "/tasks")):  # without its imports
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
from lm_eval.tasks.ifeval import utils
for row in rows:
    kwargs = [{k: v for k, v in one.items() if v is not None} for one in row["kwargs"]]
    given = utils.InputExample(row["key"], row["instruction_id_list"], row["prompt"], kwargs)
    text = answers[row["prompt"]]
    print(
        utils.test_instruction_following_strict(given, text).follow_instruction_list,
        utils.test_instruction_following_loose(given, text).follow_instruction_list,
    )
"""
)


def verdicts(python: str, code: str, data: Path, model: str, seed: int = 0) -> tuple[str, float]:
    """Return what a fresh process says of a model's answers, and its seconds."""
    began = time.perf_counter()
    ended = subprocess.run(
        [python, "-c", code, str(data), model],
        env=os.environ | {"PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        sys.exit(ended.stderr)
    return ended.stdout, time.perf_counter() - began


def compare(data: Path, python: str, repeats: int) -> None:
    """Print the seconds of both for GPT-4's answers, and how many prompts' verdicts differ."""
    ours, theirs = [], []
    said: list[str] = []
    for _ in range(repeats):
        mine, seconds = verdicts(sys.executable, OURS, data, "gpt4")
        ours.append(seconds)
        other, seconds = verdicts(python, REFERENCE, data, "gpt4")
        theirs.append(seconds)
        said = other.splitlines()
    differ = sum(one != two for one, two in zip(mine.splitlines(), said, strict=True))
    ratio = median(theirs) / median(ours)
    print(
        f"harness {median(ours):.2f} s, lm-eval {median(theirs):.2f} s: {ratio:.2f} times as fast"
    )
    print(f"prompts with other verdicts: {differ} of {len(said)} (lm-eval draws at random)")


def rescore(data: Path, times: int) -> int:
    """Score each model's answers repeatedly; return 1 if a verdict differs, else 0."""
    code = 0
    for path in sorted(data.glob("responses_*.jsonl.gz")):
        model = path.name.removeprefix("responses_").removesuffix(".jsonl.gz")
        found = {verdicts(sys.executable, OURS, data, model, seed)[0] for seed in range(times)}
        (lines, *_) = found
        strict, loose = zip(*(line[1:-1].split("] [") for line in lines.splitlines()), strict=True)
        worse = sum(
            "True" in one and "False" not in one and "False" in two
            for one, two in zip(strict, loose, strict=True)
        )
        digest = hashlib.sha256(lines.encode()).hexdigest()[:12]
        print(
            f"{model}: {len(found)} set of verdicts in {times} processes ({digest}), {worse} worse"
        )
        code |= len(found) != 1 or worse > 0
    return code


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--reference", default="", help="an interpreter with lm-eval")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rescore", type=int, default=0, metavar="N")
    asked = parser.parse_args()
    if asked.reference:
        compare(asked.data, asked.reference, asked.repeats)
    return rescore(asked.data, asked.rescore) if asked.rescore else 0


if __name__ == "__main__":
    sys.exit(main())
