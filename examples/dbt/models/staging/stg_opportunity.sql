select
    "Id" as opportunity_id,
    "AccountId" as account_id,
    "Name" as opportunity_name,
    "StageName" as stage,
    "Amount" as amount,
    _in_doubt as is_uncertain
from {{ source('salesforce', 'opportunity') }}
