"""IFBench: unusual instructions that a program can verify (Pyatkin et al. 2025, arXiv 2507.02833).

The task works like IFEval with 58 other kinds of instruction. Prompts have one turn, or several
turns if they are read from your own file.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from harness.plugins.benchmarks.ifeval.task import FIGURES, IFEvalTask
from harness.ports import PaperTable


class IFBenchTask(IFEvalTask):
    """Unusual instructions that a program can verify (Pyatkin et al. 2025).

    Args:
        dataset: ``builtin`` (a small example), ``public`` (the published 300 prompts), or a path to
            a file in the published format, with messages allowed instead of prompt.
        verdicts: ``official`` agrees with the published code. ``corrected`` replaces the checks
            that misread some answers, and counts the verdicts that this changes.
    """

    table = PaperTable(
        rows="", columns="", figures=FIGURES, source="Pyatkin et al. 2025 (arXiv 2507.02833)"
    )
    _public: ClassVar[str] = "ifbench/IFBench_test.jsonl"
    _builtin: ClassVar[Path] = Path(__file__).with_name("builtin.jsonl")
