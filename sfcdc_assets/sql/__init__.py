"""Questions to the tables: `sfcdc sql`, the views of entities, and their catalogue for other tools."""
