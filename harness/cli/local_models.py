"""The part of `harness doctor` about local models: GPUs, and the command that starts vLLM.

Nothing is reported on a machine without them.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator

from harness.config.settings import visible_gpus
from harness.report.listings import CheckupFinding

QUERY = ("--query-gpu=index,name,memory.total,memory.free", "--format=csv,noheader")


def vllm_command(command: str) -> Iterator[CheckupFinding]:
    """Check the program that starts vLLM's server.

    Args:
        command: The setting as it was written.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        said = f"HARNESS_VLLM_COMMAND is not a command: {error}"
        yield CheckupFinding("lack", "vLLM's server", said, "Write it as you would in a shell.")
        return
    if not words:
        return
    if shutil.which(words[0]):
        yield CheckupFinding("ok", "vLLM's server", f"started by {words[0]}")
    else:
        said = f"HARNESS_VLLM_COMMAND names a program that does not exist: {words[0]}"
        yield CheckupFinding(
            "lack",
            "vLLM's server",
            said,
            "Set it to a command that starts a server (docs/vllm.md).",
        )


def gpus(seconds: float) -> Iterator[CheckupFinding]:
    """List NVIDIA GPUs, and which of them this process may use.

    Args:
        seconds: The time limit for the driver's answer.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return
    try:
        ended = subprocess.run(  # noqa: S603
            [program, *QUERY], capture_output=True, text=True, check=False, timeout=seconds
        )
    except (OSError, subprocess.TimeoutExpired):
        yield CheckupFinding(
            "lack", "GPUs", "nvidia-smi does not answer", "Run nvidia-smi to see why."
        )
        return
    if ended.returncode != 0:
        said = " ".join((ended.stderr or ended.stdout).split())[:200]
        yield CheckupFinding("lack", "GPUs", f"nvidia-smi fails: {said}", "Check NVIDIA's driver.")
        return
    for line in ended.stdout.splitlines():
        number, name, total, free = ([part.strip() for part in line.split(",")] + [""] * 4)[:4]
        yield CheckupFinding("ok", f"GPU {number}", f"{name}, {total}, {free} free")
    usable = visible_gpus()
    if usable is not None:
        names = ", ".join(usable) or "none"
        yield CheckupFinding("ok", "GPUs", f"CUDA_VISIBLE_DEVICES allows {names}")
