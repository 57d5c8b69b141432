"""Tasks of lm-evaluation-harness, with its prompts and metrics."""

from harness.plugin import NamedTask, Plugin

plugin = Plugin(
    summary="Tasks of lm-evaluation-harness, with its prompts and metrics.",
    tasks={"lm_eval": ".task:LmEvalTask"},
    named_tasks={
        "lm_eval": NamedTask(option="task", left_out=r"^.*/(?=[^/])|[.]ya?ml$", limits_answers=True)
    },
)
