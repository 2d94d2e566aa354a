"""Each table of the warehouse, by its name: columns, partitions, and what its commits carry."""
