"""What `salesforce-bulk` reads and writes, as one JSON document on standard output. Settings come in the environment;
this file imports nothing of ours, as it runs with a Python of its own."""

import json
import os

from salesforce_bulk import CsvDictsAdapter, SalesforceBulk

host = os.environ["SALESFORCE_INSTANCE_URL"].removeprefix("https://")
bulk = SalesforceBulk(sessionId=os.environ["SESSION_ID"], host=host, API_version="60.0")
found = {}


def load(job, rows):
    batch = bulk.post_batch(job, CsvDictsAdapter(iter(rows)))
    bulk.close_job(job)
    bulk.wait_for_batch(job, batch, sleep_interval=0.1)
    return [dict(each._asdict()) for each in bulk.get_batch_results(batch)]


job = bulk.create_query_job("Account", contentType="CSV")
batch = bulk.query(job, "SELECT Id, Name FROM Account")
bulk.close_job(job)
bulk.wait_for_batch(job, batch, sleep_interval=0.1)
lines = b"".join(b"".join(each) for each in bulk.get_all_results_for_query_batch(batch))
found["read"] = lines.decode()
found["inserted"] = load(
    bulk.create_insert_job("Account"), [{"Name": "Bulk", "Phone": "1"}, {"Name": "", "Phone": "2"}]
)
found["upserted"] = load(
    bulk.create_upsert_job("Account", "External_Key__c"), [{"Name": "Upserted", "External_Key__c": "bulk-1"}]
)
aborted = bulk.create_query_job("Account", contentType="CSV")
bulk.abort_job(aborted)
found["aborted"] = bulk.job_status(aborted)["state"]
print(json.dumps(found))
