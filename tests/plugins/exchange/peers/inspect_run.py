"""Run by Inspect's Python: evaluates the mock model and writes its logs to the given folder."""

import sys

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, accuracy, match, mean, scorer
from inspect_ai.solver import generate, system_message


@scorer(metrics=[mean()])
def length():
    async def score(state, target):
        return Score(value=len(state.output.completion) / 4, explanation="how long")

    return score


@scorer(metrics=[accuracy()])
def partly():
    async def score(state, target):
        return Score(value="P" if target.text == "6" else "C")

    return score


folder, form = sys.argv[1:]
answers = []
for said in ("4", "five", "8", "4", "6", "nine"):
    output = ModelOutput.from_content("mockllm/model", said)
    output.usage = ModelUsage(input_tokens=5, output_tokens=1, total_tokens=6)
    answers.append(output)
task = Task(
    name="sums",
    dataset=MemoryDataset(
        [
            Sample(
                id=f"s{n}",
                input=f"What is {n}+{n}?",
                target=str(2 * n),
                metadata={"parity": "odd" if n % 2 else "even"},
            )
            for n in (2, 3, 4)
        ],
        name="sums",
    ),
    solver=[system_message("Be terse."), generate()],
    scorer=[match(), length(), partly()],
    epochs=2,
    config=GenerateConfig(temperature=0.5, max_tokens=10),
)
(log,) = eval(
    task,
    model=get_model("mockllm/model", custom_outputs=iter(answers)),
    log_dir=folder,
    log_format=form,
    display="none",
    max_samples=1,
)
assert log.status == "success", log.error
for score in log.results.scores:
    for name, metric in score.metrics.items():
        print(score.name, name, metric.value)
