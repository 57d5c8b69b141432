"""Runs a task by Inspect itself, with one answer to all samples."""

from pathlib import Path
from typing import Any

GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}


def run_by_inspect(
    task: str, text: str, logs: Path
) -> dict[str, tuple[list[tuple[str, str]], dict[str, Any]]]:
    """The prompt and the scores of each sample, by its id."""
    from inspect_ai import eval as evaluate
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    outputs = [ModelOutput.from_content("mockllm/model", text) for _ in range(20)]
    for output in outputs:
        output.usage = ModelUsage()  # else Inspect downloads a tokenizer to count tokens
    model = get_model("mockllm/model", custom_outputs=outputs)
    [log] = evaluate(task, model=model, log_dir=str(logs), display="none")
    assert log.status == "success", str(log.error)[:300]
    found = {}
    for sample in log.samples or []:
        prompt = [(one.role, str(one.content)) for one in sample.messages[:-1]]
        scores: dict[str, Any] = {}
        for name, score in (sample.scores or {}).items():
            values = score.value if isinstance(score.value, dict) else {"": score.value}
            for key, value in values.items():
                graded = GRADES.get(value, value) if isinstance(value, str) else value
                scores[f"{name}.{key}" if key else name] = graded
        found[str(sample.id)] = prompt, scores
    return found
