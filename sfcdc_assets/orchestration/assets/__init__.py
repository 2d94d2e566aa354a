"""The assets of the graph, and what their materializations show."""
