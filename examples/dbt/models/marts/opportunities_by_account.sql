select account_id, account_name, count(opportunity_id) as opportunities, coalesce(sum(amount), 0) as amount
from {{ ref('stg_account') }}
left join {{ ref('stg_opportunity') }} using (account_id)
group by account_id, account_name
