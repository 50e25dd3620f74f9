"""The JSON Schema of the rule file, for editors: `python -m ratelimit_middleware.rules.json_schema`.

It is generated from the models, so it cannot say anything else than they do. What only loading can know
(names taken, numbers that do not fit together) is not in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from ratelimit_middleware.rules.schema import FileSpec
from ratelimit_middleware.rules.values import DURATION, KEY, LIMIT, LIMITS, POSITIVE

__all__ = ["SCHEMA_FILE", "json_schema"]

SCHEMA_FILE = Path(__file__).with_name("schema.json")

_NOISE = frozenset({"title", "propertyNames"})  # the patterns of map keys stand in patternProperties
_SHARED = {"limit": LIMIT, "key": KEY, "duration": DURATION, "positive": POSITIVE}
_REFERENCES = {**_SHARED, "RuleSpec/properties/limit": LIMITS}


class _Generator(GenerateJsonSchema):
    """Without defaults; a key that may be left out still takes no null."""

    def default_schema(self, schema: Any) -> dict[str, Any]:
        """Only the schema."""
        return self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        """Only the schema."""
        return self.generate_inner(schema["schema"])


def json_schema() -> dict[str, Any]:
    """The schema as plain data."""
    schema = _tidy(FileSpec.model_json_schema(schema_generator=_Generator))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Rules of ratelimit_middleware",
        **schema,
        "$defs": {**schema["$defs"], **_SHARED},
    }


def _tidy(node: Any) -> Any:
    """Without the titles that classes have; values that stand often as references; no other map keys."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    for name, shared in _REFERENCES.items():
        if node == shared:
            return {"$ref": f"#/$defs/{name}"}
    tidy = {key: _tidy(value) for key, value in node.items() if key not in _NOISE}
    return {**tidy, "additionalProperties": False} if "patternProperties" in tidy else tidy


def _main() -> None:
    text = json.dumps(json_schema(), indent=1, ensure_ascii=False)
    SCHEMA_FILE.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    _main()
