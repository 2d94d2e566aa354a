-- One row an opportunity, kept in step: a run of dbt reads only the records that have changed since its last run, also
-- those that were deleted. Where the token of that run is no good any more, the run fails and says why: run
-- `dbt build --full-refresh` then.
{{ config(materialized='incremental', unique_key='opportunity_id', incremental_strategy='delete+insert') }}
{% set token = run_query('select max(_token) from ' ~ this).columns[0].values()[0] if is_incremental() else none %}

select
    changes."Id" as opportunity_id,
    changes."StageName" as stage,
    changes."Amount" as amount,
    changes._op = 'delete' as is_deleted,
    tokens.token as _token
from {{ changes_since('opportunity', token) }} as changes
cross join (select token from {{ tokens_beside('opportunity') }} where entity = 'Opportunity') as tokens
