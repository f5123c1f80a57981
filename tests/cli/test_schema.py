"""`lakeconf export json-schema`: the JSON Schema for editors."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from lakeconf.config.schema import json_schema
from lakeconf.pipelines.models.unit_tests import pipeline_schema


def test_schema_prints_the_schema(run_in_stores: Any) -> None:
    code, out, _ = run_in_stores("export", "json-schema")
    assert code == 0
    assert json.loads(out) == json_schema(pipeline_schema())
    jsonschema.Draft202012Validator.check_schema(json.loads(out))
