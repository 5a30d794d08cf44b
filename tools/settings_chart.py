"""The values `settings` in the schema of the chart trimtab, generated from the settings of the controllers."""

import json

from archives import ROOT

from trimtab.controllers.settings import SETTINGS

FILE = "charts/trimtab/values.schema.json"
TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def chart_files() -> dict[str, str]:
    """The schema with the settings of the code; its other parts are written by hand."""
    schema = json.loads((ROOT / FILE).read_text(encoding="utf-8"))
    schema["properties"]["settings"] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: {"type": TYPES[setting.type], "description": setting.text} for name, setting in SETTINGS.items()
        },
    }
    return {FILE: json.dumps(schema, indent=2) + "\n"}
