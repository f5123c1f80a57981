"""Models and runs: each run of a model is one transaction, which the lake records.

Declare models in Python with `model`, or in SQL in `[pipeline]` of lakeconf.toml. `Pipeline` orders them.
"""

from lakeconf.pipelines.models.body import Query, SparkQuery
from lakeconf.pipelines.models.column_tests import accepted_values, not_null, relationships, unique
from lakeconf.pipelines.models.declared import declared_pipeline, pipeline_problems
from lakeconf.pipelines.models.kinds import Append, Full, Incremental, Merge, Seed, View
from lakeconf.pipelines.models.model import Model, model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.run import ModelResult, plan, run

__all__ = [
    "Append",
    "Full",
    "Incremental",
    "Merge",
    "Model",
    "ModelResult",
    "Pipeline",
    "Query",
    "Seed",
    "SparkQuery",
    "View",
    "accepted_values",
    "declared_pipeline",
    "model",
    "not_null",
    "pipeline_problems",
    "plan",
    "relationships",
    "run",
    "unique",
]
