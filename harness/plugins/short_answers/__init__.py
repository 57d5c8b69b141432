"""Short answers: numbers in any notation, and values in JSON objects, in replies."""

from harness.plugin import Plugin

plugin = Plugin(
    summary="Numbers in any notation, and values in JSON objects, as answers in replies.",
    checkers={"numeric_match": ".numeric_match:NumericMatchChecker"},
    extensions={
        "extractions": {"json": ".extraction:JSON", "number": ".extraction:NUMBER"},
        "row_presets": {
            "gsm8k": ".presets:GSM8K",
            "gsm8k_json": ".presets:GSM8K_JSON",
            "shuffled_objects": ".presets:SHUFFLED_OBJECTS",
            "shuffled_objects_json": ".presets:SHUFFLED_OBJECTS_JSON",
        },
    },
)
