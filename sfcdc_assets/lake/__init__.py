"""The only importer of deltalake: `store/` (a folder or an object store), `delta/` (one table), `tables/` (each by its
name), `maintenance/`, `erasure/` (a record out of all of them), `certificates/` (what they hold, as hashes)."""
