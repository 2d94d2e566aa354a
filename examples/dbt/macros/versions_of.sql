{# Every version of an entity's records: the view beside the one of the source, so that dbt and Dagster know one source
   an entity, whose asset is materialized when the entity has changed. #}
{% macro versions_of(entity) %}
    {%- set rows = source('salesforce', entity) -%}
    {{- api.Relation.create(database=rows.database, schema=rows.schema, identifier=rows.identifier ~ '_history') -}}
{% endmacro %}
