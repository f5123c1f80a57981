-- A schema is called as a model says, without the target's in front of it.
{% macro generate_schema_name(custom_schema_name, node) %}{{ custom_schema_name or target.schema }}{% endmacro %}
