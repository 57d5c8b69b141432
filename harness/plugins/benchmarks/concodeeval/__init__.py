"""ConCodeEval: constraints as code in JSON, YAML, XML and Python (arXiv 2407.03387)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="ConCodeEval: constraints as code in JSON, YAML, XML and Python (arXiv 2407.03387).",
    tasks={
        "concodeeval_generation": ".generation:ConCodeEvalGeneration",
        "concodeeval_validation": ".validation:ConCodeEvalValidation",
    },
)
