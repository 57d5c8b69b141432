"""IFBench: unusual instructions that a program can verify (Pyatkin et al. 2025, arXiv 2507.02833).

The task is IFEval's with 58 other kinds of instruction, in one turn or, from a file of one's own,
in the last of several.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from harness.ports import PaperTable
from harness.tasks.ifeval import FIGURES, IFEvalTask


class IFBenchTask(IFEvalTask):
    """Unusual instructions that a program can verify (Pyatkin et al. 2025).

    Args:
        dataset: ``builtin`` (ours), ``public`` (the published 300 prompts), or a path to a file in
            the published format, whose rows may have ``messages`` instead of ``prompt``.
        verdicts: ``official`` agrees with the published code; ``corrected`` replaces the checks
            that misread some answers, and counts the verdicts that this changes.
    """

    table = PaperTable(
        rows="", columns="", figures=FIGURES, source="Pyatkin et al. 2025 (arXiv 2507.02833)"
    )
    _public: ClassVar[str] = "ifbench/IFBench_test.jsonl"
    _builtin: ClassVar[Path] = Path(__file__).with_name("builtin.jsonl")


plugin = IFBenchTask
