"""Tasks as a user of Inspect writes them, which the harness runs."""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, GenerateConfig
from inspect_ai.scorer import (
    Score,
    accuracy,
    answer,
    choice,
    f1,
    includes,
    match,
    mean,
    pattern,
    scorer,
)
from inspect_ai.solver import (
    chain_of_thought,
    generate,
    multiple_choice,
    prompt_template,
    system_message,
)

SUMS = [Sample(input=f"What is {n} + {n}?", target=str(2 * n), id=f"n{n}") for n in range(4)]


@task
def sums(brief: bool = True) -> Task:
    return Task(
        dataset=SUMS,
        solver=[
            *[system_message("Be brief.")] * brief,
            prompt_template("Q: {prompt}"),
            generate(),
        ],
        scorer=[match(numeric=True), includes(), f1()],
        config=GenerateConfig(temperature=0.3, max_tokens=50, stop_seqs=["\n\n"]),
    )


@task
def capitals() -> Task:
    return Task(
        dataset=[
            Sample(input="The capital of France?", choices=["Rome", "Paris"], target="B"),
            Sample(input="Cities in Italy?", choices=["Rome", "Paris", "Pisa"], target=["A", "C"]),
        ],
        solver=multiple_choice(multiple_correct=True),
        scorer=choice(),
    )


@task
def reasons() -> Task:
    return Task(dataset=SUMS, solver=[chain_of_thought(), generate()], scorer=answer("line"))


@task
def turns() -> Task:
    messages = [ChatMessageSystem(content="Be kind."), ChatMessageUser(content="Say x = 3")]
    return Task(dataset=[Sample(input=messages, target="3")], scorer=pattern(r"x = (\w)"))


@scorer(metrics={"length": [mean()], "short": [accuracy()]})
def shape():
    async def score(state, target):
        text = state.output.completion
        return Score(value={"length": len(text), "short": len(text) < 5})

    return score


@task
def shapes() -> Task:
    return Task(dataset=SUMS, scorer=shape())
