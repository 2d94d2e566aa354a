select "Id" as account_id, "Name" as account_name, "Industry" as industry, owner_name, _in_doubt as is_uncertain
from {{ source('salesforce', 'account') }}
