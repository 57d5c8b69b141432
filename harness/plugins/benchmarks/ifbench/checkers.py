"""Checkers for the verifiable instructions of IFBench.

The checker ``ifbench:count/pronouns`` applies the instruction ``count:pronouns``. Its options are
the instruction's arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from harness.plugins.benchmarks.ifeval.checkers import InstructionChecker, instruction_plugin
from harness.plugins.benchmarks.ifeval.instructions.texts import IFBENCH, TRAINING

PLUGINS: Mapping[str, Callable[..., InstructionChecker]] = {
    name.replace(":", "/"): instruction_plugin(name) for name in IFBENCH | TRAINING
}
