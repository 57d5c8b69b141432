"""ConCodeEval: constraints as code in JSON, YAML, XML and Python (arXiv 2407.03387)."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="ConCodeEval: constraints as code in JSON, YAML, XML and Python (arXiv 2407.03387).",
    tasks={
        "concodeeval_generation": ".tasks:ConCodeEvalGeneration",
        "concodeeval_validation": ".tasks:ConCodeEvalValidation",
    },
    document_formats={
        "xml": ".documents.xml_text:read",
        "yaml": ".documents.yaml_text:read",
    },
    schema_validators={"paper": ".paper:PaperValidator"},
    study="study.yaml",
)
