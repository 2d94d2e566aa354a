"""The graph in Dagster: assets, jobs, sensors, checks, schedules and resources, which `build_defs` lists for one org
(`OrgAssets`)."""
