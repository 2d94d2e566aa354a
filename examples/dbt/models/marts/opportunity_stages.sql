-- How each opportunity went through its stages. No dbt snapshot: the copy has every version, also of what changed twice
-- between two runs of dbt.
select
    "Id" as opportunity_id,
    "StageName" as stage,
    min(_valid_from) as entered_at,
    case when bool_or(_valid_to is null) then null else max(_valid_to) end as left_at
from (
    select *, count(*) filter (where "StageName" is distinct from stage_before) over versions as visit
    from (
        select *, lag("StageName") over (partition by "Id" order by _valid_from, _position) as stage_before
        from {{ versions_of('opportunity') }}
        where not _is_deleted
    )
    window versions as (partition by "Id" order by _valid_from, _position)
)
group by "Id", "StageName", visit
