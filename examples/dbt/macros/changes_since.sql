{# What has changed in an entity since a token, up to the cut of the views, one row a record; without a token every living
   record. The model depends on the entity's source, as with `versions_of`. #}
{% macro changes_since(entity, token) %}
    {%- set rows = source('salesforce', entity) -%}
    {{- adapter.quote(rows.database) }}.{{ adapter.quote(rows.schema) }}.{{ adapter.quote(rows.identifier ~ '_changes_since') -}}
    ({{ "'" ~ token ~ "'" if token else 'null' }})
{%- endmacro %}

{# The token of each entity at that cut, to ask with next time. #}
{% macro tokens_beside(entity) %}
    {%- set rows = source('salesforce', entity) -%}
    {{- api.Relation.create(database=rows.database, schema=rows.schema, identifier='sfcdc_tokens') -}}
{% endmacro %}
