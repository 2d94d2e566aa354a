"""What has changed in an entity's tables since a consumer asked the last time, exactly once over consecutive calls."""
