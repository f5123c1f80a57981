-- Uses the schema name of the model, without the target's schema as a prefix.
{% macro generate_schema_name(custom_schema_name, node) %}{{ custom_schema_name or target.schema }}{% endmacro %}
