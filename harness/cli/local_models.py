"""What `harness doctor` says of running models on this machine: its GPUs, and what starts vLLM.

Who has neither need not hear of it.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator

from harness.config.settings import visible_gpus
from harness.report.listings import Finding

QUERY = ("--query-gpu=index,name,memory.total,memory.free", "--format=csv,noheader")


def vllm_command(command: str) -> Iterator[Finding]:
    """Whether the program is there that the setting for starting vLLM's server names.

    command: the setting, as it was written.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        said = f"HARNESS_VLLM_COMMAND is no command: {error}"
        yield Finding("lack", "vLLM's server", said, "Write it as in a shell.")
        return
    if not words:
        return
    if shutil.which(words[0]):
        yield Finding("ok", "vLLM's server", f"is started by {words[0]}")
    else:
        said = f"HARNESS_VLLM_COMMAND names a program that is not there: {words[0]}"
        yield Finding("lack", "vLLM's server", said, "Set it to what starts one (docs/vllm.md).")


def gpus(seconds: float) -> Iterator[Finding]:
    """NVIDIA's GPUs, and which of them may be used.

    seconds: for their driver to answer.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return
    try:
        ended = subprocess.run(  # noqa: S603
            [program, *QUERY], capture_output=True, text=True, check=False, timeout=seconds
        )
    except (OSError, subprocess.TimeoutExpired):
        yield Finding("lack", "GPUs", "nvidia-smi does not answer", "See what it says by itself.")
        return
    if ended.returncode != 0:
        said = " ".join((ended.stderr or ended.stdout).split())[:200]
        yield Finding("lack", "GPUs", f"nvidia-smi fails: {said}", "See NVIDIA's driver.")
        return
    for line in ended.stdout.splitlines():
        number, name, total, free = ([part.strip() for part in line.split(",")] + [""] * 4)[:4]
        yield Finding("ok", f"GPU {number}", f"{name}, {total}, {free} free")
    usable = visible_gpus()
    if usable is not None:
        names = ", ".join(usable) or "none of them"
        yield Finding("ok", "GPUs", f"CUDA_VISIBLE_DEVICES lets this use {names}")
