"""The org's REST side: login, queries, describe, Bulk jobs, setup objects. Asked, never believed beyond what it
says."""
