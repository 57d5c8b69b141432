"""Tasks of Inspect that need what the harness does not do."""

import random

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import Score, accuracy, match, model_graded_qa, scorer
from inspect_ai.solver import generate, self_critique, use_tools, user_message

SAMPLE = Sample(input="a", target="b")


@task
def judged():
    return Task(dataset=[SAMPLE], scorer=model_graded_qa())


@task
def tools():
    return Task(dataset=[SAMPLE], solver=[use_tools(), generate()], scorer=match())


@task
def twice():
    again = [generate(), user_message("Again."), generate()]
    return Task(dataset=[SAMPLE], solver=again, scorer=match())


@task
def critique():
    return Task(dataset=[SAMPLE], solver=[generate(), self_critique()], scorer=match())


@task
def boxed():
    return Task(dataset=[Sample(input="a", target="b", sandbox="docker")], scorer=match())


@task
def unscored():
    return Task(dataset=[SAMPLE])


@scorer(metrics=[accuracy()])
def asking():
    async def score(state, target):
        await get_model("mockllm/model").generate("?")
        return Score(value="C")

    return score


@scorer(metrics=[accuracy()])
def failing():
    async def score(state, target):
        raise KeyError(random.random())

    return score


@scorer(metrics=[accuracy()])
def breaking():
    async def score(state, target):
        raise RuntimeError("no data")

    return score


@scorer(metrics=[accuracy()])
def skipping():
    async def score(state, target):
        return None

    return score


@scorer(metrics=[accuracy()])
def empty():
    async def score(state, target):
        return Score(value={})

    return score


@scorer(metrics=[accuracy()])
def anything():
    async def score(state, target):
        return Score(value="C")

    return score


@task
def hopeless():
    scorers = [match(), asking(), failing(), breaking(), skipping(), empty()]
    return Task(dataset=[SAMPLE], scorer=scorers)


@task
def blank():
    return Task(dataset=[SAMPLE], scorer=empty())


@task
def open_ended():
    return Task(dataset=[Sample(input="a"), Sample(input="b", target=[])], scorer=anything())
