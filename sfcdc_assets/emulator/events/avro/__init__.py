"""Change events in Avro: an entity's schema, its field bitmaps and its bodies, as the Pub/Sub API sends them."""
